// What two texts have in common word for word.
const SHORTEST = 6; // characters; shorter runs of words are in any two texts
const SHORTEST_NUMBER = 3; // digits

const isWord = (character) => character !== undefined && /[\p{L}\p{N}]/u.test(character);
const startsWord = (text, at) => !isWord(text[at - 1]) || !isWord(text[at]);
const endsWord = (text, at) => !isWord(text[at - 1]) || !isWord(text[at]);

function counts(passage) {
  const trimmed = passage.trim();
  return trimmed.length >= SHORTEST || (/^\p{N}+$/u.test(trimmed) && trimmed.length >= SHORTEST_NUMBER);
}

/** The length of the longest run of whole words of `text` at `begin` that `other` has, too. */
function longest(text, begin, other) {
  let length = 0;
  for (let at = 0; (at = other.indexOf(text[begin], at)) >= 0; at += 1) {
    if (!startsWord(other, at)) continue;
    let same = 0;
    while (begin + same < text.length && at + same < other.length && text[begin + same] === other[at + same]) same += 1;
    while (same > 0 && !(endsWord(text, begin + same) && endsWord(other, at + same))) same -= 1;
    length = Math.max(length, same);
  }
  return length;
}

/** Ranges [begin, end) of `text` whose words stand in `other`, in order. */
export function copied(text, other) {
  const ranges = [];
  for (let at = 0; at < text.length;) {
    const length = startsWord(text, at) && isWord(text[at]) ? longest(text, at, other) : 0;
    if (length > 0 && counts(text.slice(at, at + length))) {
      ranges.push([at, at + length]);
      at += length;
    } else {
      at += 1;
    }
  }
  return ranges;
}

/** Nodes of `text` with its ranges marked. */
export function marked(text, ranges) {
  const nodes = [];
  let at = 0;
  for (const [begin, end] of ranges) {
    nodes.push(text.slice(at, begin));
    const mark = document.createElement("mark");
    mark.textContent = text.slice(begin, end);
    nodes.push(mark);
    at = end;
  }
  nodes.push(text.slice(at));
  return nodes;
}
