// Elements without a template language: text only ever goes in as text.

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

// Text with stretches marked; offsets count code points, as Python counts them.
export function marked(text, spans, make = (piece) => h("mark", {}, piece)) {
  const letters = Array.from(text);
  const parts = [];
  let at = 0;
  spans.forEach(([start, end], i) => {
    if (start < at) return;
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
