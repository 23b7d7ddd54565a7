// What is stored: list, upload, deletion, and which documents a prompt mounts.
import { documentPath, getJson, request } from "./api.js";
import { byId, bytes, count, counted, make } from "./format.js";
import { Pages } from "./pages.js";
import { ask } from "./question.js";
import { upload } from "./upload.js";

const LISTED = 1000; // documents of one answer
const chosen = new Set();
const running = new Set(); // ids that this page is uploading
let documents = new Map();
let ingests = new Map();
let report = () => {};
let pages;

/** {id: document} of those that are ticked. */
export function mounted() {
  return new Map([...documents].filter(([id]) => chosen.has(id)));
}

function showMounted() {
  const names = [...mounted().keys()];
  byId("mounted").textContent = names.length ? `with ${names.join(", ")}` : "with no document: tick one to ask about it";
}

/** A document's metadata in one line, "" without any. */
function description(found) {
  return Object.entries(found.metadata ?? {}).map(([key, value]) => `${key}: ${value}`).join(" · ");
}

function documentRow(found) {
  const box = make("input", { type: "checkbox", checked: chosen.has(found.id) });
  box.addEventListener("change", () => {
    if (box.checked) chosen.add(found.id);
    else chosen.delete(found.id);
    showMounted();
  });
  const remove = make("button", { type: "button", className: "small", ariaLabel: `Delete ${found.id}` }, "Delete");
  remove.addEventListener("click", () => discard(found.id, `Delete “${found.id}”? What was read of it is lost.`, "Delete"));
  const size = make("span", {}, found.damage ? `damaged: ${found.damage}` : `${counted(found.tokens, "token")} · ${bytes(found.bytes)}`);
  const facts = make("div", { className: "facts" }, size, remove);
  const metadata = description(found);
  const described = metadata ? [make("div", { className: "facts" }, make("span", {}, metadata))] : [];
  return make("li", {}, make("label", {}, box, make("span", {}, found.id)), ...described, facts);
}

function ingestRow(found) {
  const at = found.committed_bytes ?? found.bytes; // of an ingest from tokens: they are not in a file
  const remove = make("button", { type: "button", className: "small", ariaLabel: `Discard ${found.id}` }, "Discard");
  remove.addEventListener("click", () => discard(found.id, `Discard what was read of “${found.id}”?`, "Discard"));
  return make("li", {}, make("span", {}, found.id),
    make("div", { className: "facts" }, make("span", {}, `broken off at ${bytes(at)}: drop the file again to go on`), remove));
}

async function listAll() {
  const all = [];
  const unfinished = new Map();
  let page;
  do {
    const after = page ? `&after=${encodeURIComponent(page.last_id)}` : "";
    page = await getJson(`/v1/documents?limit=${LISTED}${after}`);
    all.push(...page.data);
    for (const one of page.ingests) unfinished.set(one.id, one);
  } while (page.has_more);
  ingests = unfinished;
  return all;
}

function showList() {
  const unfinished = [...ingests.values()].filter((one) => !running.has(one.id));
  const shown = pages.of([...documents.keys()]).map((id) => documents.get(id));
  byId("list").replaceChildren(...unfinished.map(ingestRow), ...shown.map(documentRow));
}

/** `added`: the id of a document that is to be seen. */
export async function refresh(added) {
  documents = new Map((await listAll()).map((one) => [one.id, one]));
  for (const id of chosen) if (!documents.has(id)) chosen.delete(id);
  if (documents.has(added)) pages.turnTo(added, [...documents.keys()]);
  showList();
  byId("none").hidden = documents.size + ingests.size + running.size > 0;
  showMounted();
}

async function discard(id, text, yes) {
  if ((await ask(text, { yes, no: "Keep it" })) !== "yes") return;
  try {
    await request("DELETE", documentPath(id));
    await refresh();
  } catch (error) {
    report(error.message);
  }
  byId("file").focus(); // the button that had it is gone
}

/** Where to begin, after the person has said what to do with an ingest of that name; null: not at all. */
async function beginning(id) {
  const old = ingests.get(id);
  if (!old) return 0;
  const at = old.committed_bytes;
  const answer = await ask(`“${id}” was broken off at ${bytes(at)}. Is this the same file?`,
    { yes: "No: start over", other: "Yes: go on", no: "Cancel" });
  if (answer === "other") return at;
  if (answer !== "yes") return null;
  await request("DELETE", documentPath(id));
  return 0;
}

/** `fail` gets what went wrong in words. */
async function add(file, fail) {
  const id = file.name;
  if (running.has(id)) return;
  const bar = make("progress", { max: Math.max(file.size, 1), value: 0, ariaLabel: `Reading ${id}` });
  const speed = make("span", {}, "waiting");
  const cancel = make("button", { type: "button", className: "small", ariaLabel: `Stop reading ${id}` }, "Stop");
  const row = make("li", {}, make("span", {}, id), bar, make("div", { className: "facts" }, speed, cancel));
  const stop = new AbortController();
  cancel.addEventListener("click", () => stop.abort());
  running.add(id);
  try {
    const begin = await beginning(id);
    if (begin === null) return;
    byId("uploads").append(row);
    const show = (line) => {
      bar.value = line.accepted_bytes ?? line.committed_bytes ?? bar.value;
      speed.textContent = `${bytes(bar.value)} of ${bytes(file.size)} · ${count(line.tokens_per_s ?? 0)} tokens/s`;
    };
    show({ accepted_bytes: begin });
    await upload(id, file, begin, show, stop.signal);
    row.remove();
    chosen.add(id);
  } catch (error) {
    row.remove();
    if (error.name !== "AbortError") fail(`${id}: ${error.message}`);
  } finally {
    running.delete(id);
    await refresh(id).catch((error) => fail(error.message));
  }
}

/** What went wrong with each of them stays until something else is begun. */
async function addAll(files) {
  const failures = [];
  report("");
  for (const file of files) await add(file, (text) => {
    failures.push(text);
    report(failures.join("\n"));
  });
}

/** `show` gets errors in words. */
export function start(show) {
  report = show;
  pages = new Pages(showList, (id) => `${id} ${description(documents.get(id))}`);
  const drop = byId("drop");
  const input = byId("file");
  input.addEventListener("change", async () => {
    const files = [...input.files];
    input.value = ""; // so that the same file can be chosen again
    await addAll(files);
  });
  for (const name of ["dragenter", "dragover"]) drop.addEventListener(name, (event) => {
    event.preventDefault();
    drop.classList.add("over");
  });
  drop.addEventListener("dragleave", () => drop.classList.remove("over"));
  drop.addEventListener("drop", async (event) => {
    event.preventDefault();
    drop.classList.remove("over");
    await addAll([...event.dataTransfer.files]);
  });
}
