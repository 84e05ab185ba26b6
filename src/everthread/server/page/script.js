// A plain page: sign in, talk, and hear the reply as it comes. What it shows is text, and never interpreted as a page.
// The stream reconnects by itself, and goes on from its place (Last-Event-ID).
const $ = (id) => document.getElementById(id);
const api = "/api";
const SHOWN = { user: "You", assistant: "" };
let key = "", csrf = "", here = "", stream = null, first = 0, reply = null, running = false;

async function ask(method, path, body) {
  const headers = { "X-CSRF-Token": csrf };
  if (body !== undefined) headers["Content-Type"] = "application/json";
  const answer = await fetch(api + path, { method, headers, body: body === undefined ? undefined : JSON.stringify(body) });
  const told = answer.status === 204 ? null : await answer.json();
  if (!answer.ok) throw Object.assign(new Error(told.detail), { status: answer.status });
  return told;
}

const state = (text, problem = false) => { $("state").textContent = text; $("state").classList.toggle("problem", problem); };
const trouble = (problem) => { problem.status === 401 ? outside() : state(problem.message, true); };

// -- coming in and going out

async function start() {
  const link = new URLSearchParams(location.hash.slice(1)).get("link");
  if (location.hash) history.replaceState(null, "", location.pathname); // a link is for one use, and for nobody else to see
  try {
    await inside(link ? await ask("POST", "/sign-in", { link }) : await ask("GET", "/sign-in"));
  } catch (problem) {
    outside(link ? problem.message : "");
  }
}

function outside(why = "") {
  stream?.close();
  for (const id of ["talk", "say", "leave", "begin", "conversations"]) $(id).hidden = true;
  $("messages").replaceChildren();
  $("who").textContent = why;
  $("enter").hidden = false;
  $("enter").elements.user.focus();
}

async function inside(told) {
  csrf = told.csrf;
  $("who").textContent = told.caller.user;
  $("enter").hidden = true;
  for (const id of ["talk", "say", "leave", "begin", "conversations"]) $(id).hidden = false;
  await list((await ask("POST", "/conversation", {})).conversation.id);
}

async function list(id) {
  const found = await ask("GET", "/conversations?limit=100");
  const named = (one) => one.name || `${one.agent}, ${new Date(one.began).toLocaleDateString()}`;
  if (!found.some((one) => one.id === id)) found.unshift((await ask("GET", `/conversations/${id}`)).conversation);
  $("conversations").replaceChildren(...found.map((one) => new Option(named(one), one.id, false, one.id === id)));
  await open(id);
}

// -- a conversation

async function open(id) {
  stream?.close();
  const mine = here = `/conversations/${id}`;
  $("messages").replaceChildren();
  reply = null; running = false; first = 0;
  const page = await ask("GET", `${mine}/before?limit=50&messages=true`);
  if (here !== mine) return; // another one was opened meanwhile
  show(page, true);
  listen(page.length ? page.at(-1).seq : 0);
  scrollTo(0, document.body.scrollHeight);
  $("words").focus();
}

function show(page, older = false) {
  const drawn = page.map(drawing).filter(Boolean);
  older ? $("messages").prepend(...drawn) : $("messages").append(...drawn);
  if (older && page.length) first = page[0].seq;
  $("earlier").hidden = !first || first <= 1;
}

function drawing(one) {
  const text = one.kind === "tool_call" ? `${one.event.name} …` : one.text;
  if (one.kind === "tool_result" || one.kind === "system" || !text) return null;
  return line(one.kind === "tool_call" ? "tool" : one.kind, SHOWN[one.kind] ?? "", text);
}

function line(kind, by, text) {
  const made = document.createElement("li");
  made.className = kind;
  if (by) made.append(Object.assign(document.createElement("span"), { className: "by", textContent: by }));
  made.append(text);
  return made;
}

// -- hearing

function listen(after) {
  stream?.close();
  let place = after;
  stream = new EventSource(`${api}${here}/listen?after=${after}`);
  stream.addEventListener("told", (event) => { place = event.lastEventId; hear(JSON.parse(event.data).item); });
  stream.addEventListener("problem", (event) => state(JSON.parse(event.data).detail, true));
  stream.onopen = () => { if ($("state").textContent.startsWith("The connection")) state(""); };
  stream.onerror = ({ target }) => {
    state("The connection was lost; it is tried again.");
    if (target.readyState === EventSource.CLOSED && target === stream) setTimeout(() => target === stream && listen(place), 3000);
  };
}

function hear(item) {
  const near = innerHeight + scrollY > document.body.scrollHeight - 120;
  if (item.event) heardEvent(item);
  else if (item.kind === "text") heardText(item.text);
  else if (item.kind === "notice") state(item.text);
  else if (item.kind === "done") over(item);
  if (near) scrollTo(0, document.body.scrollHeight);
}

function heardText(text) {
  if (!reply) { reply = line("assistant", "", ""); $("messages").append(reply); }
  reply.append(text);
  works(true);
}

function heardEvent(item) {
  if (item.kind === "assistant") { reply?.remove(); reply = null; }
  if (item.kind === "user") works(true);
  show([item]);
}

function over(done) {
  works(false);
  reply = null;
  const price = done.price ? `, $${done.price.toFixed(4)}` : "";
  const past = done.past ? `, ${done.past.toLocaleString()} are past` : "";
  const calls = done.usage ? `${done.usage.input ?? 0} tokens in, ${done.usage.output ?? 0} out${price}` : "";
  state(done.state === "interrupted" ? "The turn was interrupted; what had come is kept."
    : done.state === "waiting" ? "The agent waits for approval of a tool call."
    : `Sent: ${done.sent} ${done.sent === 1 ? "message" : "messages"}${past}. ${calls}`);
}

function works(now) {
  running = now;
  $("stop").hidden = !now;
  $("send").disabled = now;
}

// -- saying

$("say").addEventListener("submit", async (event) => {
  event.preventDefault();
  const words = $("words").value.trim();
  if (!words || running) return;
  works(true); state("");
  try {
    key ||= crypto.randomUUID?.() ?? String(Math.random()); // kept until it was accepted: sent again, it is said once
    await ask("POST", `${here}/say`, { pieces: [words], key });
    $("words").value = key = "";
  } catch (problem) { works(false); trouble(problem); }
});
$("words").addEventListener("input", () => { key = ""; });
$("words").addEventListener("keydown", (event) => {
  if (event.key === "Enter" && !event.shiftKey && !event.isComposing) { event.preventDefault(); $("say").requestSubmit(); }
});
$("stop").addEventListener("click", () => ask("POST", `${here}/stop`, {}).catch(trouble));
$("earlier").addEventListener("click", async () => {
  const height = document.body.scrollHeight;
  try { show(await ask("GET", `${here}/before?seq=${first}&limit=50&messages=true`), true); } catch (problem) { trouble(problem); }
  scrollTo(0, scrollY + document.body.scrollHeight - height);
});
$("conversations").addEventListener("change", (event) => open(event.target.value).catch(trouble));
$("begin").addEventListener("click", async () => {
  try { await list((await ask("POST", "/conversations", {})).conversation.id); } catch (problem) { trouble(problem); }
});
$("enter").addEventListener("submit", async (event) => {
  event.preventDefault();
  const given = Object.fromEntries(new FormData(event.target));
  try { await inside(await ask("POST", "/sign-in", given)); event.target.reset(); } catch (problem) { $("who").textContent = problem.message; }
});
$("leave").addEventListener("click", async () => { await ask("DELETE", "/sign-in").catch(() => {}); outside(); });
start();
