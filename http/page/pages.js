// A long list page by page, of the names in whose text is what is typed into a field.
import { byId, count, counted } from "./format.js";

const ROWS = 50;

export class Pages {
  /** `show` is called when another part of the list is wanted. `textOf` gives what is searched for a name. */
  constructor(show, textOf) {
    this.at = 0;
    this.textOf = textOf;
    const turn = (by) => () => {
      this.at += by;
      show();
    };
    byId("previous").addEventListener("click", turn(-1));
    byId("next").addEventListener("click", turn(1));
    byId("filter").addEventListener("input", () => {
      this.at = 0;
      show();
    });
  }

  matching(names) {
    const wanted = byId("filter").value.trim().toLowerCase();
    return wanted ? names.filter((name) => this.textOf(name).toLowerCase().includes(wanted)) : names;
  }

  /** The names to show now, of all; the rest can be turned to. */
  of(names) {
    const found = this.matching(names);
    const last = Math.max(0, Math.ceil(found.length / ROWS) - 1);
    this.at = Math.min(this.at, last);
    const begin = this.at * ROWS;
    const end = Math.min(begin + ROWS, found.length);
    const filtered = found.length < names.length;
    byId("find").hidden = names.length <= ROWS && !filtered;
    byId("pages").hidden = found.length <= ROWS;
    byId("previous").disabled = this.at === 0;
    byId("next").disabled = this.at === last;
    byId("range").textContent = `${count(begin + 1)} to ${count(end)} of ${counted(found.length, "document")}`;
    byId("unmatched").hidden = !filtered || found.length > 0;
    return found.slice(begin, end);
  }

  /** Turns to the page that has this name, without the filter where that hides it. */
  turnTo(name, names) {
    if (!this.matching([name]).length) byId("filter").value = "";
    this.at = Math.floor(Math.max(0, this.matching(names).indexOf(name)) / ROWS);
  }
}
