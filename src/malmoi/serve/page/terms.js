// Terms: a mention or a note, the mentions in it, their codes, what else they may mean, and why.

import { post } from "./api.js";
import { fill, gap, h, marked, meter, segmented } from "./dom.js";
import { t } from "./i18n.js";
import { problem } from "./main.js";

const MENTIONS = ["DM nephropathy", "간경화", "고혈압", "CHF", "심근경색"];
const NOTE = "72세 남자. HTN, DM으로 f/u 중 3일 전부터 fever, 기침 있어 내원.\nCXR상 pneumonia 의심, 결핵은 배제됨. 아버지가 간암으로 사망.\nNo chest pain. congestive heart failure (CHF) 과거력 있음.";

const STATUSES = ["present", "negated", "possible", "hypothetical", "historical"];
const PERSONS = ["patient", "family", "other"];

// In memory alone, while the page is open: a change of language loses nothing.
let kept = ""; // the note
let waiting = []; // notes of files that were opened
let collected = []; // decisions about the notes before this one, until they are exported

export function draw(panel, info, values, link) {
  if (!info.lexicons.length) {
    fill(panel, h("h1", {}, t("termsTitle")), h("div", { class: "notice" }, h("p", {}, t("noLexicon")), h("p", { class: "number" }, "malmoi serve --lexicon FOLDER")));
    return;
  }
  let kind = values.kind === "note" ? "note" : "mention";
  let lexicon = info.lexicons.some((one) => one.name === values.lexicon) ? values.lexicon : info.lexicons[0].name;
  const out = h("div", { "aria-live": "polite" });
  const place = h("div", { class: "stack" });
  let field;
  const run = async (focused = false) => {
    const text = field.value.trim();
    // A note is somebody's: it stands neither in the address nor in the browser's history.
    link({ kind, q: kind === "note" ? "" : text, lexicon: info.lexicons.length > 1 ? lexicon : "" });
    if (kind === "note") kept = field.value;
    if (!text) return fill(out, empty());
    fill(out, h("p", { class: "status" }, t("working")));
    try {
      if (kind === "note") {
        fill(out, note(field.value, await post("/v1/link/note", { text: field.value, lexicon, k: 4 }), next));
        if (focused) out.querySelector(".mention")?.focus();
      }
      else fill(out, mention((await post("/v1/link", { mentions: text, lexicon, k: 5 })).results[0]));
    } catch (error) {
      if (error.name !== "AbortError") fill(out, problem(error));
    }
  };
  const ask = (text) => { field.value = text; run(); };
  const next = () => {
    field.value = kept = waiting.shift() ?? "";
    left.textContent = t("notesWaiting", waiting.length);
    if (field.value) return run(true);
    fill(out, empty());
    field.focus();
  };
  const open = async (event) => {
    for (const file of event.target.files) waiting.push(...notesOf(file.name, await file.text()));
    event.target.value = "";
    left.textContent = t("notesWaiting", waiting.length);
    if (!field.value.trim() && waiting.length) next();
  };
  const left = h("span", { class: "small soft", "aria-live": "polite" }, t("notesWaiting", waiting.length));
  const empty = () => (kind === "note"
    ? h("div", { class: "empty" }, h("p", {}, t("noteEmpty")), gap(), h("button", { class: "quiet", type: "button", onclick: () => ask(NOTE) }, t("sample")),
      collected.length ? h("button", { class: "quiet", type: "button", onclick: () => save(collected) }, t("exportDecisions", collected.length)) : null)
    : h("div", { class: "empty" }, h("p", {}, t("samples")), gap(), h("div", { class: "row", role: "group", "aria-label": t("samples") }, MENTIONS.map((text) => h("button", { class: "chip", type: "button", onclick: () => ask(text) }, text)))));
  const drawForm = (text) => {
    field = kind === "note"
      ? h("textarea", { id: "term", rows: "6", value: text, placeholder: t("notePlaceholder"), spellcheck: "false" })
      : h("input", { id: "term", type: "text", value: text, placeholder: t("mentionPlaceholder"), autocomplete: "off", spellcheck: "false" });
    const choice = segmented(t("kind"), [["mention", t("mention")], ["note", t("note")]], kind, (to) => {
      kind = to;
      drawForm("");
      fill(out, empty());
      link({ kind });
      place.querySelector('[aria-pressed="true"]').focus();
    });
    const select = info.lexicons.length > 1
      ? h("select", { "aria-label": t("lexicon"), onchange: (event) => { lexicon = event.target.value; run(); } }, info.lexicons.map((one) => h("option", { value: one.name, selected: one.name === lexicon }, one.name)))
      : h("span", { class: "small soft" }, t("lexiconOf", lexicon, info.lexicons[0].names.toLocaleString()));
    fill(place, h("div", { class: "row" }, choice, select), h("label", { for: "term" }, t(kind === "note" ? "noteLabel" : "mentionLabel")), field,
      h("div", { class: "row" }, h("button", { class: "primary", type: "submit" }, t("termsRun")),
        kind === "note" ? [h("button", { class: "quiet", type: "button", onclick: next }, t("nextNote")),
          h("input", { type: "file", multiple: true, accept: ".txt,.jsonl", "aria-label": t("openNotes"), onchange: open }), left] : null));
  };
  const given = kind === "note" ? kept : values.q ?? "";
  if (kind === "note" && values.q) link({ kind });
  drawForm(given);
  fill(panel, h("h1", {}, t("termsTitle")), h("p", { class: "lead" }, t("termsLead")),
    h("form", { class: "card", onsubmit: (event) => { event.preventDefault(); run(); } }, place), h("div", {}, gap(), out));
  if (given) run();
  else fill(out, empty());
}

function mention(found) {
  if (!found.candidates.length) return h("p", { class: "empty" }, t("noCandidate"));
  return h("section", { class: "card" }, h("h2", {}, t("candidatesOf", found.mention)), candidates(found.candidates));
}

function candidates(list) {
  return h("div", {}, gap(), list.map((one) => h("div", { class: "candidate" },
    h("span", { class: "code" }, one.code),
    h("div", {}, h("p", { class: "text" }, one.ko ?? one.en), one.ko && one.en ? h("p", { class: "soft", lang: "en" }, one.en) : null,
      h("p", {}, h("span", { class: one.why === "exact" ? "badge" : "badge plain" }, t(`why_${one.why}`))),
      h("p", { class: "small soft" }, one.names.join(" · "))),
    h("div", { class: "score" }, h("span", { class: "number" }, one.score.toFixed(3)), meter(one.score, t("scoreOf", one.score.toFixed(3)))))));
}

// One note a file, or one a line of JSON with its text.
function notesOf(name, content) {
  if (!name.endsWith(".jsonl")) return [content].filter((text) => text.trim());
  return content.split("\n").filter((line) => line.trim()).map((line) => {
    try { return String(JSON.parse(line).text ?? ""); } catch { return ""; }
  }).filter((text) => text.trim());
}

function note(text, { mentions, cut }, next) {
  const warning = cut === null ? null : h("p", { class: "notice warm" }, t("noteCut", cut.toLocaleString()));
  if (!mentions.length) return warning ?? h("p", { class: "empty" }, t("noMention"));
  const side = h("section", { class: "card", "aria-live": "polite" });
  const buttons = [];
  const decisions = new Map();
  let at = 0;
  const decide = (decision, code = "") => {
    const said = decision === "reject" ? {} : decisions.get(at) ?? {};
    set(said.status || said.experiencer ? "change" : decision, { ...said, code });
    choose(at + 1 < mentions.length ? at + 1 : at);
    buttons[at].focus();
  };
  const set = (decision, { code = "", status = "", experiencer = "" }) => {
    decisions.set(at, { decision, code, status, experiencer });
    buttons[at].dataset.decision = decision;
  };
  // Of the status, or of whose it is: what was found until it is changed.
  const said = (part) => decisions.get(at)?.[part] || mentions[at][part];
  const say = (part, value) => {
    set("change", { ...decisions.get(at), [part]: value });
    choose(at);
  };
  const turned = (part, values) => say(part, values[(values.indexOf(said(part)) + 1) % values.length]);
  const picked = (part, values, label) => h("label", { class: "small" }, `${label} `,
    h("select", { onchange: (event) => say(part, event.target.value) },
      values.map((value) => h("option", { value, selected: value === said(part) }, t(`${part}_${value}`)))));
  const advance = () => {
    collected.push(...rowsOf(text, mentions, decisions));
    decisions.clear();
    next();
  };
  const exported = () => save([...collected, ...rowsOf(text, mentions, decisions)]);
  const choose = (i) => {
    at = i;
    const one = mentions[i], decided = decisions.get(i);
    buttons.forEach((button, j) => button.setAttribute("aria-pressed", String(i === j)));
    const badges = [...one.attributes, ...(one.uncertain ? ["unsure"] : [])];
    fill(side, h("h2", {}, t("candidatesOf", one.mention)),
      badges.length ? h("p", {}, badges.map((name) => [h("span", { class: "badge warm" }, t(`is_${name}`)), " "])) : null,
      candidates(one.candidates),
      h("div", { class: "row", role: "group", "aria-label": t("decision") },
        h("button", { type: "button", class: "quiet", onclick: () => decide("accept") }, t("accept")),
        one.candidates.slice(1, 4).map((other) => h("button", { type: "button", class: "quiet", onclick: () => decide("change", other.code) }, other.code)),
        h("button", { type: "button", class: "quiet", onclick: () => decide("reject") }, t("reject")),
        h("button", { type: "button", class: "quiet", disabled: !(decisions.size + collected.length), onclick: exported }, t("exportDecisions", decisions.size + collected.length)),
        h("button", { type: "button", class: "quiet", onclick: advance }, t("nextNote"))),
      h("div", { class: "row" }, picked("status", STATUSES, t("statusOf")), picked("experiencer", PERSONS, t("whose"))),
      decided ? h("p", { class: "small" }, `${t(decided.decision)} ${decided.code}`) : null,
      h("p", { class: "small soft" }, t("decisionKeys")));
  };
  const keys = (event) => {
    if (event.altKey || event.ctrlKey || event.metaKey || event.target.tagName === "SELECT") return;
    const other = mentions[at].candidates[Number(event.key) - 1];
    if (event.key === "a") decide("accept");
    else if (event.key === "r") decide("reject");
    else if (event.key === "s") turned("status", STATUSES);
    else if (event.key === "w") turned("experiencer", PERSONS);
    else if (event.key === "n") advance();
    else if (event.key >= "2" && event.key <= "4" && other) decide("change", other.code);
    else if (event.key === "ArrowRight" || event.key === "ArrowLeft") {
      choose(Math.min(Math.max(at + (event.key === "ArrowRight" ? 1 : -1), 0), mentions.length - 1));
      buttons[at].focus();
    } else return;
    event.preventDefault();
  };
  const body = marked(text, mentions.map((one) => [one.start, one.end]), (piece, i) => {
    const away = mentions[i].attributes.length > 0;
    const button = h("button", { type: "button", class: away ? "mention away" : "mention", "aria-pressed": "false", title: mentions[i].candidates[0].code, onclick: () => choose(i) }, piece);
    buttons[i] = button;
    return button;
  });
  const view = h("div", { class: "columns even", onkeydown: keys },
    h("section", { class: "card" }, h("h2", {}, t("mentionsFound", mentions.length)), gap(), h("div", { class: "note" }, body), h("p", { class: "small soft" }, t("noteKey"))),
    side);
  choose(0);
  return warning ? h("div", { class: "stack" }, warning, view) : view;
}

function rowsOf(text, mentions, decisions) {
  const letters = [...text];
  return [...decisions].sort(([a], [b]) => a - b).map(([i, { decision, code, status, experiencer }]) => {
    const { start, end, mention, score, candidates: found } = mentions[i];
    const context = letters.slice(Math.max(0, start - 12), end + 12).join("");
    return [mention, context, decision, code, status, experiencer, score, found[0].why];
  });
}

// Decisions as the table that `malmoi link --corrections` and `malmoi lexicon learn` read.
function save(rows) {
  const clean = (part) => String(part).replace(/\s+/g, " ").trim();
  const lines = rows.map((cells) => cells.map(clean).join("\t"));
  const table = ["mention\tcontext\tdecision\tcode\tstatus\texperiencer\tscore\twhy", ...lines, ""].join("\n");
  const url = URL.createObjectURL(new Blob([table], { type: "text/tab-separated-values" }));
  h("a", { href: url, download: "corrections.tsv" }).click();
  URL.revokeObjectURL(url);
}
