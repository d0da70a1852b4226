// Terms: a mention or a note, the mentions in it, their codes, what else they may mean, and why.

import { post } from "./api.js";
import { table } from "./csv.js";
import { command, fill, gap, h, marked, meter, save, segmented } from "./dom.js";
import { t } from "./i18n.js";
import { problem } from "./main.js";

const MENTIONS = ["DM nephropathy", "간경화", "고혈압", "CHF", "심근경색"];
const NOTE = "환자명: 홍길동. 72세 남자. HTN, DM으로 f/u 중 3일 전부터 fever, 기침 있어 내원.\nCXR상 pneumonia 의심, 결핵은 배제됨. 아버지가 간암으로 사망.\nNo chest pain. congestive heart failure (CHF) 과거력 있음. 뇌경색 예방 위해 aspirin 복용.";

const STATUSES = ["present", "negated", "possible", "hypothetical", "historical"];
const PERSONS = ["patient", "family", "other"];

// What is said of a mention, each with a sign of its own, which tells them apart without colour.
// The diamond is that of a person in a family tree.
const KINDS = { present: "●", suspected: "?", denied: "×", past: "←", feared: "!", family: "◇", other: "□" };
const OF_STATUS = { negated: "denied", possible: "suspected", historical: "past", hypothetical: "feared" };
const kindOf = ({ status, experiencer }) => (experiencer === "patient" ? OF_STATUS[status] ?? "present" : experiencer);
const sign = (kind) => h("span", { class: `sign k-${kind}`, "aria-hidden": "true" }, KINDS[kind]);

// In memory alone, while the page is open: a change of language loses nothing.
let kept = ""; // the note
let waiting = []; // notes of files that were opened
let collected = []; // decisions about the notes before this one, until they are exported

export function draw(panel, info, values, link) {
  if (!info.lexicons.length) {
    fill(panel, h("h1", {}, t("termsTitle")), h("div", { class: "notice stack" }, h("p", {}, t("noLexicon")), command("malmoi serve --lexicon my.lexicon")));
    return;
  }
  let kind = values.kind === "note" ? "note" : "mention";
  let lexicon = info.lexicons.some((one) => one.name === values.lexicon) ? values.lexicon : info.lexicons[0].name;
  const out = h("div", { class: "out", "aria-live": "polite" });
  const place = h("div", { class: "stack" });
  let field;
  const run = async (focused = true) => {
    const text = field.value.trim();
    // A note is somebody's: it stands neither in the address nor in the browser's history.
    link({ kind, q: kind === "note" ? "" : text, lexicon: info.lexicons.length > 1 ? lexicon : "" });
    if (kind === "note") kept = field.value;
    if (!text) return fill(out, empty());
    fill(out, h("p", { class: "status" }, t("working")));
    try {
      if (kind === "note") {
        fill(out, note(field.value, await post("/v1/link/note", { text: field.value, lexicon, k: 4 }), next));
        if (focused) out.querySelector(".mention")?.focus(); // the keys work at once
      } else fill(out, mention((await post("/v1/link", { mentions: text, lexicon, k: 5 })).results[0]));
    } catch (error) {
      if (error.name !== "AbortError") fill(out, problem(error));
    }
  };
  const ask = (text) => { field.value = text; run(); };
  const next = () => {
    field.value = kept = waiting.shift() ?? "";
    left.textContent = t("notesWaiting", waiting.length);
    if (field.value) return run();
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
      collected.length ? h("button", { class: "quiet", type: "button", onclick: () => saveDecisions(collected) }, t("exportDecisions", collected.length)) : null)
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
          h("label", { class: "quiet" }, t("openNotes"), h("input", { type: "file", class: "unseen", multiple: true, accept: ".txt,.jsonl", onchange: open })), left] : null));
  };
  const given = kind === "note" ? kept : values.q ?? "";
  if (kind === "note" && values.q) link({ kind });
  drawForm(given);
  fill(panel, h("h1", {}, t("termsTitle")), h("p", { class: "lead" }, t("termsLead")),
    h("form", { class: "card", onsubmit: (event) => { event.preventDefault(); run(); } }, place), out);
  if (given) run(false);
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
  const side = h("section", { class: "card stack", "aria-live": "polite" });
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
    draw(at);
  };
  const stated = (i) => ({ status: decisions.get(i)?.status || mentions[i].status, experiencer: decisions.get(i)?.experiencer || mentions[i].experiencer });
  // A mention's sign and colour, its decision, and both in words.
  const draw = (i) => {
    const kind = kindOf(stated(i));
    buttons[i].className = `mention k-${kind}`;
    buttons[i].title = decisions.get(i)?.decision === "change" ? "" : mentions[i].why.map((one) => one.text).join("\n");
    buttons[i].dataset.sign = KINDS[kind];
    if (decisions.has(i)) buttons[i].dataset.decision = decisions.get(i).decision;
    buttons[i].setAttribute("aria-label", [buttons[i].textContent, t(`kind_${kind}`), mentions[i].candidates[0]?.code].filter(Boolean).join(", "));
    drawLegend();
  };
  // Of the status, or of whose it is: what was found until it is changed.
  const said = (part) => stated(at)[part];
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
  const exported = () => saveDecisions([...collected, ...rowsOf(text, mentions, decisions)]);
  const choose = (i) => {
    if (!mentions.length) return fill(side, h("p", {}, t("noMention")));
    at = i;
    const one = mentions[i], decided = decisions.get(i);
    buttons.forEach((button, j) => button.setAttribute("aria-pressed", String(i === j)));
    const kind = kindOf(stated(i));
    fill(side, h("h2", {}, t("candidatesOf", one.mention)),
      h("p", { class: "row" }, h("span", {}, sign(kind), " ", t(`kind_${kind}`)), one.uncertain ? h("span", { class: "badge warm" }, t("is_unsure")) : null),
      one.why.map(({ text: reason }) => h("p", { class: "small soft", lang: "en" }, reason)),
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
    if (event.altKey || event.ctrlKey || event.metaKey || ["SELECT", "INPUT"].includes(event.target.tagName)) return;
    if (!mentions.length) return;
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
  const made = mentions.map((one, i) => h("button", { type: "button", "aria-pressed": "false", onclick: () => choose(i) }));
  buttons.push(...made);
  const legend = h("ul", { class: "kinds", "aria-label": t("legend") });
  const drawLegend = () => {
    const kinds = mentions.map((_, i) => kindOf(stated(i)));
    fill(legend, Object.keys(KINDS).map((kind) => [kind, kinds.filter((one) => one === kind).length])
      .map(([kind, count]) => h("li", { class: count ? "" : "soft" }, sign(kind), ` ${t(`kind_${kind}`)} `, h("span", { class: "number" }, String(count)))));
  };
  const body = h("div", { class: "note" });
  // The text as it is, or with stars, which leave every mention where it is.
  let shown = text;
  const drawBody = () => {
    fill(body, marked(shown, mentions.map((one) => [one.start, one.end]), (piece, i) => {
      buttons[i].textContent = piece;
      return buttons[i];
    }));
    buttons.forEach((_, i) => draw(i));
  };
  const hidden = h("span", { class: "small soft", role: "status" });
  const saveText = h("button", { type: "button", class: "quiet", hidden: true, onclick: () => save("note-redacted.txt", "text/plain;charset=utf-8", shown) }, t("saveRedacted"));
  const redact = async (event) => {
    const on = event.target.checked;
    try {
      const found = on ? await post("/v1/redact", { text }) : { text, spans: [] };
      shown = found.text;
      fill(hidden, on ? t("redacted", found.spans.length) : "");
      saveText.hidden = !on;
      drawBody();
      choose(at);
    } catch (error) {
      if (error.name !== "AbortError") fill(hidden, problem(error));
    }
  };
  const rows = () => mentions.map((one, i) => {
    const { decision = "", code } = decisions.get(i) ?? {};
    return { mention: buttons[i].textContent, start: one.start, end: one.end, ...stated(i), code: code || (one.candidates[0]?.code ?? ""), name: one.candidates[0]?.ko ?? one.candidates[0]?.en ?? "", score: one.score, decision };
  });
  const asTable = () => save("mentions.csv", "text/csv;charset=utf-8", "\uFEFF", table([Object.keys(rows()[0] ?? {}), ...rows().map(Object.values)]));
  const asJson = () => save("mentions.json", "application/json", JSON.stringify({ text: shown, mentions: rows() }, null, 1));
  drawBody();
  drawLegend();
  const view = h("div", { class: "columns even", tabindex: "-1", onkeydown: keys },
    h("section", { class: "card stack" }, h("h2", {}, t("mentionsFound", mentions.length)), legend, body,
      h("div", { class: "row" }, h("label", { class: "check" }, h("input", { type: "checkbox", id: "redact", onchange: redact }), t("redact")), saveText,
        h("button", { type: "button", class: "quiet", onclick: asTable }, t("exportCsv")), h("button", { type: "button", class: "quiet", onclick: asJson }, t("exportJson"))),
      hidden),
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

// Decisions as the table that `malmoi notes read --corrections` and `malmoi notes learn` read.
function saveDecisions(rows) {
  const clean = (part) => String(part).replace(/\s+/g, " ").trim();
  const lines = rows.map((cells) => cells.map(clean).join("\t"));
  const head = "mention\tcontext\tdecision\tcode\tstatus\texperiencer\tscore\twhy";
  save("corrections.tsv", "text/tab-separated-values", [head, ...lines, ""].join("\n"));
}
