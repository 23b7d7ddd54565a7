// Finds out that an answer goes round in circles, as greedy answers of small models do: BeforeRepetition of cli/common/repetition.h.
const SHORTEST = 160; // characters; a refrain, or a row of dashes, is shorter

/** Where the end of `text` is one piece again and again: the characters up to the end of that piece's first time; else null. */
export function beforeRepetition(text) {
  for (let period = 1; ; period += 1) {
    const enough = Math.max(2.75 * period, SHORTEST);
    if (enough > text.length) return null;
    let same = period;
    while (same < text.length && text.at(-same - 1) === text.at(-same - 1 + period)) same += 1;
    if (same >= enough) return text.length - same + period;
  }
}
