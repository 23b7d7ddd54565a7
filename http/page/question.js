// A question that has to be answered before something is done that cannot be undone.
import { byId } from "./format.js";

/** Resolves to "yes", "other" or "no"; Escape is "no". `labels`: {yes, no, other?}. */
export function ask(text, labels) {
  const dialog = byId("question");
  byId("question-text").textContent = text;
  for (const name of ["yes", "no", "other"]) {
    byId(name).textContent = labels[name] ?? "";
    byId(name).hidden = !labels[name];
  }
  dialog.returnValue = "no";
  return new Promise((resolve) => {
    dialog.addEventListener("close", () => resolve(dialog.returnValue), { once: true });
    dialog.showModal();
    byId("no").focus();
  });
}
