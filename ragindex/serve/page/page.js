"use strict";

const MOST_METHODS = 4;
const get = (id) => document.getElementById(id);
const state = { readKey: "", judgeKey: "", collections: [], asked: null, run: 0, grades: {} };

// ---------------------------------------------------------------- the server

async function send(path, key, body) {
  const headers = body ? { "Content-Type": "application/json" } : {};
  if (key) headers.Authorization = `Bearer ${key}`;
  const options = { method: body ? "POST" : "GET", headers, credentials: "omit", cache: "no-store" };
  if (body) options.body = JSON.stringify(body);
  let response;
  try {
    response = await fetch(path, options);
  } catch {
    throw new Error("The server does not answer.");
  }
  if (response.ok) return response;
  const given = await response.json().catch(() => null);
  const error = new Error(given?.error?.message ?? `The server answered with status ${response.status}.`);
  error.status = response.status;
  throw error;
}

function say(text, isError = false) {
  get("status").textContent = text;
  get("status").classList.toggle("error", isError);
}

function make(tag, text, properties = {}) {
  const element = Object.assign(document.createElement(tag), properties);
  if (text) element.textContent = text;
  return element;
}

// ---------------------------------------------------------------- keys, indexes, methods

async function connect() {
  state.readKey = get("read-key").value.trim();
  state.judgeKey = get("judge-key").value.trim() || state.readKey;
  try {
    const found = await (await send("/page/collections", state.readKey)).json();
    const judge = state.judgeKey === state.readKey ? found
      : await (await send("/page/collections", state.judgeKey)).json();
    state.collections = found.collections;
    showRights(judge.rights.includes("judge"));
    showCollections();
    say("");
    return true;
  } catch (error) {
    if (error.status === 401) get("keys").open = true;
    say(error.message, true);
    return false;
  }
}

function showRights(mayJudge) {
  document.body.classList.toggle("may-judge", mayJudge);
  get("judge-help").textContent = mayJudge
    ? "A judgement is saved at once, beside the index, as TREC qrels; the last one of a hit counts."
    : "To judge hits, give a key that may judge under Keys.";
}

function showCollections() {
  const chosen = get("collection").value;
  get("collection").replaceChildren(...state.collections.map(({ name }) => make("option", name, { value: name })));
  if (state.collections.some(({ name }) => name === chosen)) get("collection").value = chosen;
  get("collections").hidden = state.collections.length < 2;
  showMethods();
}

function showMethods() {
  const collection = state.collections.find(({ name }) => name === get("collection").value);
  const labels = (collection?.methods ?? []).map((method, place) => {
    const label = make("label");
    label.append(make("input", "", { type: "checkbox", value: method, checked: place < MOST_METHODS }), make("span", method));
    return label;
  });
  get("methods").replaceChildren(get("methods").querySelector("legend"), ...labels);
  limitMethods();
}

function limitMethods() {
  const boxes = [...get("methods").querySelectorAll("input")];
  const full = chosenMethods().length >= MOST_METHODS;
  boxes.forEach((box) => { box.disabled = full && !box.checked; });
}

const chosenMethods = () => [...get("methods").querySelectorAll("input:checked")].map((box) => box.value);

// ---------------------------------------------------------------- asking

async function ask() {
  const query = get("question").value.trim();
  const methods = chosenMethods();
  if (!query || !methods.length) {
    say(query ? "Choose a method." : "", true);
    return;
  }
  const run = ++state.run;
  const asked = { query, collection: get("collection").value };
  state.asked = asked;
  state.grades = {};
  history.replaceState(null, "", `#${new URLSearchParams({ q: query, k: get("count").value, c: asked.collection, m: methods.join("\n") })}`);
  const places = methods.map((method) => {
    const place = make("article", "", { className: "waiting" });
    place.append(make("h2", method), make("p", "…", { className: "about" }));
    return place;
  });
  get("found").replaceChildren(...places);
  get("graphs").replaceChildren();
  get("paths").hidden = get("keys-help").hidden = true;
  say("Asking …");
  let failed = 0;
  for (const [number, method] of methods.entries()) {  // one after another, so that none slows another down
    const body = { ...asked, method, k: Number(get("count").value) };
    const answer = await send("/page/search", state.readKey, body).then((one) => one.text()).catch((error) => error);
    if (run !== state.run) return;
    failed += answer instanceof Error;
    showFound(places[number], answer);
  }
  say(failed ? "" : `${methods.length} method${methods.length > 1 ? "s" : ""} answered.`);
  get("keys-help").hidden = false;
  const first = document.querySelector("li.hit");
  if (first) first.tabIndex = 0;
  await loadGrades(run);
}

function showFound(place, answer) {
  if (answer instanceof Error) {
    place.className = "";
    place.lastChild.replaceWith(make("p", answer.message, { className: "error" }));
    return;
  }
  // The server has escaped all texts; parsing makes a document in which nothing runs.
  const article = new DOMParser().parseFromString(answer, "text/html").querySelector("article");
  const figure = article.querySelector("figure");
  if (figure) {
    figure.dataset.method = article.dataset.method;
    get("graphs").append(figure);
    get("paths").hidden = false;
  }
  place.replaceWith(article);
  showOthers();
}

// Says of each hit at which rank other methods have its document.
function showOthers() {
  const ranks = new Map();
  document.querySelectorAll("li.hit").forEach((hit) => {
    const method = hit.closest("article").dataset.method;
    const of = ranks.get(hit.dataset.document) ?? new Map();
    if (hit.dataset.document && !of.has(method)) ranks.set(hit.dataset.document, of.set(method, hit.dataset.rank));
  });
  const several = document.querySelectorAll("article[data-method]").length > 1;
  document.querySelectorAll("li.hit").forEach((hit) => {
    const own = hit.closest("article").dataset.method;
    const others = [...(ranks.get(hit.dataset.document) ?? [])].filter(([method]) => method !== own);
    const told = others.map(([method, rank]) => `${method} #${rank}`).join(", ");
    hit.querySelector(".also").textContent = told ? `also ${told}` : several ? "only here" : "";
  });
}

function showSame(of) {
  const document_id = of?.dataset.document;
  document.querySelectorAll("li.hit").forEach((hit) => {
    hit.classList.toggle("same", Boolean(document_id) && hit.dataset.document === document_id);
  });
}

// ---------------------------------------------------------------- judging

async function loadGrades(run) {
  if (!document.body.classList.contains("may-judge")) return;
  try {
    const { grades } = await (await send("/page/judged", state.judgeKey, state.asked)).json();
    if (run !== state.run) return;
    state.grades = { ...grades, ...state.grades };
    showGrades();
  } catch (error) {
    say(error.message, true);
  }
}

async function judge(hit, grade) {
  const { document: id } = hit.dataset;
  if (!id || !document.body.classList.contains("may-judge")) return;
  const asked = state.asked;
  try {
    await send("/page/judgements", state.judgeKey, { ...asked, document: id, grade });
    if (asked !== state.asked) return;
    state.grades[id] = grade;
    showGrades();
    say(`Saved: ${["no", "partly", "yes"][grade]}, for ${hit.querySelector("h3 bdi").textContent}.`);
  } catch (error) {
    say(error.message, true);
  }
}

function showGrades() {
  const mark = (element, grade) => [0, 1, 2].forEach((one) => element.classList.toggle(`grade-${one}`, one === grade));
  document.querySelectorAll("li.hit").forEach((hit) => {
    const grade = state.grades[hit.dataset.document];
    mark(hit, grade);
    hit.querySelectorAll("[data-grade]").forEach((button) => {
      button.setAttribute("aria-pressed", String(Number(button.dataset.grade) === grade));
    });
  });
  document.querySelectorAll("figure .node.hit").forEach((node) => {
    const hit = findHit(node);
    if (hit) mark(node, state.grades[hit.dataset.document]);
  });
}

function findHit(node) {
  const method = node.closest("figure").dataset.method;
  const article = [...document.querySelectorAll("article")].find((one) => one.dataset.method === method);
  return article?.querySelector(`li.hit[data-rank="${node.dataset.rank}"]`);
}

// ---------------------------------------------------------------- keyboard and pointer

function focusHit(hit) {
  if (!hit) return;
  document.querySelectorAll('li.hit[tabindex="0"]').forEach((one) => { one.tabIndex = -1; });
  hit.tabIndex = 0;
  hit.focus();
}

function moveFocus(key, hit) {
  const articles = [...document.querySelectorAll("article[data-method]")];
  const hits = (article) => [...(article?.querySelectorAll("li.hit") ?? [])];
  const column = articles.indexOf(hit.closest("article"));
  const row = hits(articles[column]).indexOf(hit);
  if (key === "ArrowDown" || key === "ArrowUp") {
    focusHit(hits(articles[column])[row + (key === "ArrowDown" ? 1 : -1)]);
  } else {
    const beside = hits(articles[column + (key === "ArrowRight" ? 1 : -1)]);
    focusHit(beside[Math.min(row, beside.length - 1)]);
  }
}

document.addEventListener("keydown", (event) => {
  const target = event.target;
  if (event.ctrlKey || event.metaKey || event.altKey || target.matches("input, select, textarea")) return;
  if (event.key === "/") {
    event.preventDefault();
    get("question").focus();
    get("question").select();
    return;
  }
  const hit = target.closest("li.hit");
  if (!hit) return;
  if (event.key.startsWith("Arrow")) {
    event.preventDefault();
    moveFocus(event.key, hit);
  } else if (["y", "p", "n"].includes(event.key)) {
    event.preventDefault();
    judge(hit, { y: 2, p: 1, n: 0 }[event.key]);
  }
});
document.addEventListener("click", (event) => {
  const button = event.target.closest("[data-grade]");
  if (button) judge(button.closest("li.hit"), Number(button.dataset.grade));
  const node = event.target.closest("figure .node.hit");
  if (node) focusHit(findHit(node));
});
get("found").addEventListener("focusin", (event) => showSame(event.target.closest("li.hit")));
get("found").addEventListener("focusout", () => showSame(null));
get("found").addEventListener("pointerover", (event) => showSame(event.target.closest("li.hit")));
get("ask").addEventListener("submit", (event) => {
  event.preventDefault();
  ask();
});
get("collection").addEventListener("change", showMethods);
get("methods").addEventListener("change", limitMethods);
get("use-keys").addEventListener("click", connect);
["read-key", "judge-key"].forEach((id) => get(id).addEventListener("keydown", (event) => {
  if (event.key !== "Enter") return;
  event.preventDefault();
  connect();
}));

// A link to this page holds the question behind the #, which browsers do not send.
async function begin() {
  const given = new URLSearchParams(location.hash.slice(1));
  if (!(await connect()) || !given.get("q")) return;
  get("question").value = given.get("q");
  if (["3", "5", "10", "20"].includes(given.get("k"))) get("count").value = given.get("k");
  if (state.collections.some(({ name }) => name === given.get("c"))) {
    get("collection").value = given.get("c");
    showMethods();
  }
  const wanted = (given.get("m") ?? "").split("\n");
  const boxes = [...get("methods").querySelectorAll("input")];
  if (boxes.some((box) => wanted.includes(box.value))) {
    boxes.forEach((box) => { box.checked = wanted.includes(box.value); });
    limitMethods();
  }
  say("Press Ask.");  // another site may have made the link, and a question can cost money
  get("question").focus();
}

window.addEventListener("unhandledrejection", (event) => say(`The page has failed: ${event.reason}`, true));
begin();
