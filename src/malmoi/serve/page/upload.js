// Files dropped onto the page, or chosen, into the corpus that is being searched.

import { postAlone } from "./api.js";
import { fill, h } from "./dom.js";
import { t } from "./i18n.js";
import { problem } from "./main.js";

// Files may be dropped anywhere: a browser would open one that misses the zone, and leave the page.
let target = null;
const takes = (event) => Boolean(target?.zone.isConnected) && event.dataTransfer?.types.includes("Files");
addEventListener("dragover", (event) => {
  if (!takes(event)) return;
  event.preventDefault();
  target.zone.classList.add("over");
});
addEventListener("dragleave", () => target?.zone.classList.remove("over"));
addEventListener("drop", (event) => {
  if (!takes(event)) return;
  event.preventDefault();
  target.zone.classList.remove("over");
  target.send([...event.dataTransfer.files]);
});

export function dropZone(limits, corpus, uploaded) {
  const out = h("div", { "aria-live": "polite" });
  const input = h("input", { id: "files", type: "file", multiple: true, class: "unseen", onchange: () => { send([...input.files]); input.value = ""; } });
  const send = async (files) => {
    if (!files.length) return;
    zone.closest("details")?.setAttribute("open", "");
    if (files.length > limits.files) return fill(out, h("p", { class: "notice warm", role: "alert" }, t("uploadMost", limits.files)));
    const lines = h("ul", { class: "uploads" });
    fill(out, lines);
    input.disabled = true;
    let done = 0;
    // One after the other: each is within the server's limits, and the list shows how far it is.
    for (const file of files) {
      const line = h("li", {}, `${file.name}: ${t("working")}`);
      lines.append(line);
      try {
        if (file.size > limits.bytes) throw new Error(t("uploadLarge", Math.floor(limits.bytes / 2 ** 20)));
        const answer = await postAlone("/v1/documents", { corpus: corpus(), files: [{ name: file.name, content: await base64(file) }] });
        const [one] = answer.files;
        fill(line, one.error ?? `${one.name}: ${t("uploadDone", one.documents, one.passages)}`);
        if (one.error) line.className = "bad";
        else done += 1;
      } catch (error) {
        line.className = "bad";
        fill(line, `${file.name}: `, error.status === undefined ? error.message : problem(error).textContent);
      }
    }
    input.disabled = false;
    if (done) uploaded();
  };
  const zone = h("section", { class: "drop", "aria-label": t("uploadTitle") },
    h("p", {}, t("uploadHelp"), " ", h("label", { for: "files", class: "link" }, t("uploadChoose")), input),
    h("p", { class: "small soft" }, t("uploadLimits", limits.files, Math.floor(limits.bytes / 2 ** 20))), out);
  target = { zone, send };
  return zone;
}

async function base64(file) {
  const url = await new Promise((resolve, reject) => {
    const reader = new FileReader();
    reader.onload = () => resolve(reader.result);
    reader.onerror = () => reject(new Error(t("uploadUnread")));
    reader.readAsDataURL(file);
  });
  return url.slice(url.indexOf(",") + 1);
}
