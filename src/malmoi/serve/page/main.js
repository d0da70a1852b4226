// The page's frame: tabs, languages, deep links, the key; each tab is a module of its own.

import { get, setKey } from "./api.js";
import { fill, h } from "./dom.js";
import { language, setLanguage, t } from "./i18n.js";
import * as compare from "./compare.js";
import * as map from "./map.js";
import * as search from "./search.js";
import * as terms from "./terms.js";
import * as words from "./words.js";

const TABS = { search, compare, terms, words, map };
const state = { tab: "search", info: null, error: null, drawing: 0 };

function read() {
  const [path] = location.hash.replace(/^#\/?/, "").split("?");
  const values = asked();
  if (values.lang) setLanguage(values.lang);
  state.tab = path in TABS ? path : Object.keys(TABS)[0];
  return values;
}

function asked() {
  const at = location.hash.indexOf("?");
  return Object.fromEntries(new URLSearchParams(at < 0 ? "" : location.hash.slice(at + 1)));
}

// Everything that is asked stands in the address, after the #, which no browser sends.
function link(values) {
  const query = new URLSearchParams({ ...values, lang: language() });
  for (const [name, value] of [...query]) if (!value) query.delete(name);
  history.replaceState(null, "", `#/${state.tab}?${query}`);
}

function show(tab) {
  location.hash = `#/${tab}?lang=${language()}`;
}

function drawFrame() {
  document.documentElement.lang = language();
  document.title = `malmoi 말모이 · ${t(state.tab)}`;
  for (const place of document.querySelectorAll("[data-i18n]")) place.textContent = t(place.dataset.i18n);
  for (const place of document.querySelectorAll("[data-i18n-label]")) place.setAttribute("aria-label", t(place.dataset.i18nLabel));
  for (const button of document.querySelectorAll("[data-lang]")) button.setAttribute("aria-pressed", String(button.dataset.lang === language()));
  fill(document.getElementById("tabs"), Object.keys(TABS).map((name) =>
    h("button", {
      type: "button", role: "tab", class: "tab", id: `tab-${name}`, "aria-controls": "panel",
      "aria-selected": String(name === state.tab), tabindex: name === state.tab ? "0" : "-1", onclick: () => show(name),
    }, t(name))));
  const info = state.info;
  document.getElementById("about").textContent = info
    ? `malmoi ${info.version} · ${info.encoder.id} (${t("dimensions", info.encoder.dimension)})${info.reranker && info.reranker.id !== info.encoder.id ? ` · ${info.reranker.id}` : ""}`
    : "malmoi";
}

function drawPanel(values) {
  const panel = document.getElementById("panel");
  panel.setAttribute("role", "tabpanel");
  panel.setAttribute("aria-labelledby", `tab-${state.tab}`);
  if (state.error) {
    fill(panel, problem(state.error));
    return;
  }
  // An answer may come when its tab is long left: then it must not write the address of another.
  const drawing = ++state.drawing;
  TABS[state.tab].draw(panel, state.info, values, (said) => { if (drawing === state.drawing) link(said); });
}

export function problem(error) {
  const known = { 0: "unreachable", 401: "needKey", 413: "tooMuch", 429: "busy", 503: "stopping" };
  const text = t(known[error.status] ?? "failed", error.wait ?? 1);
  return h("div", { class: "notice bad", role: "alert" }, h("p", {}, text),
    error.message && !(error.status in known) ? h("p", { class: "small", lang: "en" }, error.message) : null);
}

async function start() {
  const values = read();
  try {
    state.info = await get("/v1/info");
    state.error = null;
  } catch (error) {
    state.error = error;
    if (error.status === 401) {
      document.getElementById("key-open").hidden = false;
      document.getElementById("key-dialog").showModal?.();
    }
  }
  drawFrame();
  drawPanel(values);
}

document.getElementById("languages").addEventListener("click", (event) => {
  const chosen = event.target.dataset?.lang;
  if (!chosen) return;
  setLanguage(chosen);
  const values = asked();
  link({ ...values, lang: chosen });
  drawFrame();
  drawPanel(values);
});

document.getElementById("tabs").addEventListener("keydown", (event) => {
  const names = Object.keys(TABS);
  const step = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
  let to = names.indexOf(state.tab) + (step ?? 0);
  if (event.key === "Home") to = 0;
  else if (event.key === "End") to = names.length - 1;
  else if (!step) return;
  event.preventDefault();
  show(names[(to + names.length) % names.length]);
  addEventListener("drawn", () => document.getElementById(`tab-${state.tab}`).focus(), { once: true });
});

// A link to #panel would take the place of the tab in the address.
document.getElementById("skip").addEventListener("click", (event) => {
  event.preventDefault();
  document.getElementById("panel").focus();
});

document.getElementById("key-open").addEventListener("click", () => document.getElementById("key-dialog").showModal());
document.getElementById("key-dialog").addEventListener("close", () => {
  const value = document.getElementById("key-input").value;
  if (value) {
    setKey(value);
    start();
  }
});

addEventListener("hashchange", () => {
  const values = read();
  drawFrame();
  drawPanel(values);
  dispatchEvent(new Event("drawn"));
});

start();
