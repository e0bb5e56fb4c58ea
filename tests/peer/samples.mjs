// Texts to split into tokens: samples.txt, one JSON string per line, so that spaces and line ends
// are visible; '#' starts a comment.
import assert from 'node:assert/strict';
import {readFileSync} from 'node:fs';

export function readSamples() {
  const lines = readFileSync(new URL('samples.txt', import.meta.url), 'utf8').split('\n');
  const texts = lines.filter((line) => line !== '' && !line.startsWith('#'));
  const samples = texts.map((line) => JSON.parse(line));
  for (const text of samples) assert.equal(text, text.normalize('NFC'), 'samples.txt: NFC');
  return samples;
}
