// Meaningless tokens, the same in every run.
export function someTokens(count, vocabulary) {
  let state = 12345;
  return Array.from({length: count}, () => {
    state = (state * 1103515245 + 12345) % 2147483648;
    return Math.floor(state / 65536) % vocabulary;
  });
}
