import java.io.IOException;
import java.nio.file.*;
import java.util.*;
import java.util.stream.*;
import org.elasticsearch.common.logging.LogConfigurator;
import org.elasticsearch.common.settings.Settings;
import org.elasticsearch.env.Environment;
import org.elasticsearch.http.HttpServerTransport;
import org.elasticsearch.node.Node;
import org.elasticsearch.plugins.PluginsLoader;

/**
 * One node for tests: StartNode HOME RUN KEY=VALUE... with any setting of elasticsearch.yml.
 *
 * Writes its port to RUN/port once it answers, and stops by itself when no process named in RUN/users is alive: so a
 * test run that was killed leaves no server behind.
 */
public class StartNode {
    public static void main(String[] arguments) throws Exception {
        Path home = Paths.get(arguments[0]).toAbsolutePath(), run = Paths.get(arguments[1]).toAbsolutePath();
        Environment environment = new Environment(settings(home, arguments), home.resolve("config"));
        LogConfigurator.registerErrorListener();
        LogConfigurator.configure(environment, true);
        Set<org.elasticsearch.plugins.PluginBundle> modules = PluginsLoader.loadModulesBundles(environment.modulesDir());
        Node node = new Node(environment, PluginsLoader.createPluginsLoader(modules, Set.of(), Map.of(), false));
        Runtime.getRuntime().addShutdownHook(new Thread(() -> close(node, run)));
        node.start();
        int port = node.injector().getInstance(HttpServerTransport.class).boundAddress().publishAddress().getPort();
        Files.writeString(run.resolve("port.new"), Integer.toString(port));
        Files.move(run.resolve("port.new"), run.resolve("port"), StandardCopyOption.ATOMIC_MOVE);
        while (wanted(run.resolve("users"))) Thread.sleep(1000);
        System.exit(0);
    }

    static Settings settings(Path home, String[] arguments) {
        Settings.Builder settings = Settings.builder()
            .put("path.home", home.toString())
            .put("network.host", "127.0.0.1")
            .put("cluster.routing.allocation.disk.threshold_enabled", false);
        for (String argument : Arrays.asList(arguments).subList(2, arguments.length)) {
            String[] pair = argument.split("=", 2);
            if (pair[1].contains(",")) settings.putList(pair[0], pair[1].split(","));
            else settings.put(pair[0], pair[1]);
        }
        return settings.build();
    }

    static boolean wanted(Path users) throws IOException {
        try (Stream<Path> files = Files.list(users)) {
            List<Long> pids = files.map(file -> Long.parseLong(file.getFileName().toString())).toList();
            return pids.stream().anyMatch(pid -> ProcessHandle.of(pid).map(ProcessHandle::isAlive).orElse(false));
        } catch (NoSuchFileException gone) {
            return false;
        }
    }

    /** Its data go with it where RUN/throwaway names their folder. */
    static void close(Node node, Path run) {
        try {
            node.close();
            if (!Files.exists(run.resolve("throwaway"))) return;
            try (Stream<Path> files = Files.walk(Paths.get(Files.readString(run.resolve("throwaway"))))) {
                for (Path file : files.sorted(Comparator.reverseOrder()).toList()) Files.delete(file);
            }
        } catch (IOException error) {
            error.printStackTrace();
        }
    }
}
