// Elements without a template language: text only ever goes in as text.

import { t } from "./i18n.js";

const SVG = "http://www.w3.org/2000/svg";
const SHAPES = new Set(["svg", "circle", "line", "text", "g", "title"]);

export function h(tag, attributes = {}, ...children) {
  const element = SHAPES.has(tag) ? document.createElementNS(SVG, tag) : document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (value === undefined || value === null || value === false) continue;
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else if (name === "color") element.style.backgroundColor = value;
    else if (name === "ink") element.style.color = value;
    else if (name === "width%") element.style.width = `${value}%`;
    else if (name === "value" || name === "checked") element[name] = value;
    else element.setAttribute(name, value === true ? "" : value);
  }
  element.append(...children.flat(3).filter((child) => child !== null && child !== undefined && child !== false));
  return element;
}

export function fill(place, ...children) {
  place.replaceChildren(...children.flat(3).filter((child) => child !== null && child !== undefined && child !== false));
}

export const gap = () => h("div", { class: "gap" });

// From similarity to colour: pale paper to deep green, with ink that can be read on it.
export function heat(score) {
  const dark = matchMedia("(prefers-color-scheme: dark)").matches;
  const low = dark ? [32, 40, 42] : [242, 240, 233];
  const high = dark ? [112, 204, 190] : [22, 84, 78];
  // Sentences that have nothing in common still reach about 0.3: colour begins there.
  const share = Math.min(Math.max((score - 0.25) / 0.75, 0), 1) ** 1.5;
  const mixed = low.map((from, i) => Math.round(from + (high[i] - from) * share));
  const light = luminance(mixed);
  // Black or white, whichever stands out more: one of them always reaches 4.5 to 1.
  const ink = (light + 0.05) / 0.05 > 1.05 / (light + 0.05) ? "#000000" : "#ffffff";
  return { color: `rgb(${mixed.join(" ")})`, ink };
}

// How light a colour looks, as WCAG reckons contrast.
function luminance(colour) {
  const [r, g, b] = colour.map((value) => {
    const share = value / 255;
    return share <= 0.04045 ? share / 12.92 : ((share + 0.055) / 1.055) ** 2.4;
  });
  return 0.2126 * r + 0.7152 * g + 0.0722 * b;
}

export const COLOURS = [
  "#1d7a70", "#c2691c", "#4a6fb3", "#a23b63", "#6b8e23", "#7a5aa6", "#b8860b", "#2f8fa8", "#99532f", "#57606a",
];

// Stretches as [start, end] or {start, end}. The latter are passages' words that a query's words met,
// and better than equal letters: they win over the others if both are given.
export function spansOf(given, others = given) {
  const pairs = (list) => (list ?? []).map((one) => (Array.isArray(one) ? one : [one.start, one.end]));
  return given?.length && !Array.isArray(given[0]) ? pairs(given).sort((a, b) => a[0] - b[0]) : pairs(others);
}

// The words of a hit's passage that the query's words met, or else those with equal letters.
export const metOf = (hit) => (hit.met?.length ? hit.met.map(({ passage: [start, end] }) => ({ start, end })) : hit.matches);

// Where a hit is: its file, and the page as a browser's address has it.
export const address = (hit) => (hit.page === null || hit.page === undefined ? hit.id : `${hit.id}#page=${hit.page}`);

// A button that copies a text; only pages of this machine, or over https, may.
export function copyButton(text) {
  if (!navigator.clipboard) return null;
  const button = h("button", { class: "link", type: "button", "aria-label": `${t("copy")}: ${text}`, onclick: async () => {
    await navigator.clipboard.writeText(text);
    button.textContent = t("copied");
  } }, t("copy"));
  return button;
}

export const command = (text) => h("p", { class: "command" }, h("code", {}, text), copyButton(text));

export function save(name, type, ...parts) {
  const url = URL.createObjectURL(new Blob(parts, { type }));
  h("a", { href: url, download: name }).click();
  setTimeout(() => URL.revokeObjectURL(url), 1000);
}

// Text with stretches marked; offsets count code points, as Python counts them.
export function marked(text, spans, make = (piece) => h("mark", {}, piece)) {
  const letters = Array.from(text);
  const parts = [];
  let at = 0;
  spans.forEach(([start, end], i) => {
    if (start < at || end <= start) return;
    parts.push(letters.slice(at, start).join(""), make(letters.slice(start, end).join(""), i));
    at = end;
  });
  parts.push(letters.slice(at).join(""));
  return parts;
}

export function meter(share, label) {
  const width = Math.round(100 * Math.min(Math.max(share, 0), 1));
  return h("div", { class: "meter", role: "img", "aria-label": label ?? `${width}%` }, h("span", { "width%": width }));
}

export function segmented(label, options, chosen, choose) {
  const buttons = options.map(([value, text]) =>
    h("button", { type: "button", "aria-pressed": String(value === chosen), onclick: () => choose(value) }, text));
  return h("div", { class: "segmented", role: "group", "aria-label": label }, buttons);
}
