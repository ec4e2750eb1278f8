package ragindex.tests;

import java.util.*;
import java.util.function.*;
import org.elasticsearch.Build;
import org.elasticsearch.client.internal.node.NodeClient;
import org.elasticsearch.cluster.metadata.IndexNameExpressionResolver;
import org.elasticsearch.cluster.node.DiscoveryNodes;
import org.elasticsearch.common.io.stream.NamedWriteableRegistry;
import org.elasticsearch.common.settings.*;
import org.elasticsearch.features.NodeFeature;
import org.elasticsearch.plugins.*;
import org.elasticsearch.rest.*;
import org.elasticsearch.xcontent.XContentBuilder;

/** GET /, which is a module of its own in a whole server and not among the published jars: who answers, which version. */
public class RootPlugin extends Plugin implements ActionPlugin {
    @Override
    public Collection<RestHandler> getRestHandlers(
        Settings settings, NamedWriteableRegistry registry, RestController controller, ClusterSettings cluster,
        IndexScopedSettings indices, SettingsFilter filter, IndexNameExpressionResolver resolver,
        Supplier<DiscoveryNodes> nodes, Predicate<NodeFeature> features
    ) {
        return List.of(new Root(settings.get("node.name"), settings.get("cluster.name")));
    }

    record Root(String node, String cluster) implements RestHandler {
        @Override
        public List<Route> routes() {
            return List.of(new Route(RestRequest.Method.GET, "/"), new Route(RestRequest.Method.HEAD, "/"));
        }

        @Override
        public void handleRequest(RestRequest request, RestChannel channel, NodeClient client) throws Exception {
            XContentBuilder answer = channel.newBuilder().startObject().field("name", node).field("cluster_name", cluster);
            answer.startObject("version").field("number", Build.current().version()).endObject();
            channel.sendResponse(new RestResponse(RestStatus.OK, answer.field("tagline", "You Know, for Search").endObject()));
        }
    }
}
