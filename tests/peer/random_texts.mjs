// Texts that nobody would write: characters of every class that the expressions of pre-tokenizers
// distinguish, in any order. The same ones in every run.
const palette = [
  ...'abstdmrevlABSTDMREVLzZ', "'", "'", "'", "'s", "'RE", "'ll", '’', ...'0123456789',
  ' ', ' ', ' ', ' ', '\n', '\n', '\r', '\t', '\r\n', '\v', '\f', '\u001c', '\u0000',
  '\u0085', '\u00a0', '\u1680', '\u180e', '\u2003', '\u2028', '\u202f', '\u3000', '\u200b',
  '\ufeff', '\u200d', '\u00ad',
  ...'!"#$%&()*+,-./:;<=>?@[\\]^_`{|}~', ...'«»¿§©®™€±×÷−∑→█',
  ...'äÄßñÑšŠ', 'ſ', '\u212a', 'ǅ', 'ʰ', 'ª', 'ƻ', 'ʔ', 'ﬁ', 'Ａ', 'ｚ', '！', '～',
  ...'жЖΩωάΆ', 'Ꭰ', 'ꭰ', 'Ა', 'ა', '𐐀', '𐐨', '𝔘', '𞤀',
  ...'אבشم', '\u064b', 'न', '\u093e', '\u094d', 'ก', '\u0e34', 'ສ', 'ក',
  '\u0301', '\u0308', '\u20dd', '\u0903',
  ...'中文龥龦', '㐀', '𠀀', '𠜎', '豈', '\ufa6e', '〇', '々', ...'あアー', '한', 'ㄱ', '\u1100',
  ...'١٢३४', '²', '½', 'Ⅷ', '①', '𝟘', '一',
  '😀', '👍🏽', '🏳️', '☃', '\ue000', '\u0378', '\u{e0001}',
  '▁', '<|', '|>', '<s>', 'Ġ', 'the', 'World', ' x', '   ',
];

// Marsaglia's xorshift, 32 bits.
function* numbers(state) {
  for (;;) {
    state ^= state << 13;
    state ^= state >>> 17;
    state ^= state << 5;
    yield state >>> 0;
  }
}

export function randomTexts(count) {
  const random = numbers(2463534242);
  const pick = (limit) => random.next().value % limit;
  return Array.from({length: count}, () => {
    // Few different characters in some texts, so that runs of one class are frequent.
    const few = Array.from({length: 2 + pick(6)}, () => palette[pick(palette.length)]);
    const from = pick(3) === 0 ? palette : few;
    return Array.from({length: 1 + pick(24)}, () => from[pick(from.length)]).join('');
  });
}
