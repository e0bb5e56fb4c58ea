// Whether llama.cpp splits texts into the tokens that tokenizer.json defines.
import assert from 'node:assert/strict';
import {readFileSync} from 'node:fs';
import {join} from 'node:path';
import {Tokenizer} from '@huggingface/tokenizers';
import {check} from './checks.mjs';
import {withModel} from './runtime.mjs';
import {readSamples} from './samples.mjs';

const readJson = (path) => JSON.parse(readFileSync(path, 'utf8'));

function assertSameTokens(theirs, ours, text) {
  const expected = theirs.encode(text, {add_special_tokens: false}).ids;
  assert.deepEqual(ours.tokenize(text, true), expected, JSON.stringify(text));
}

// `file` was converted from `source`, which has a tokenizer.json.
export async function checkTokens(source, file) {
  const json = readJson(join(source, 'tokenizer.json'));
  const theirs = new Tokenizer(json, readJson(join(source, 'tokenizer_config.json')));
  const samples = readSamples();
  await withModel(file, async (ours) => {
    await check(`${samples.length} samples give the tokens of tokenizer.json`, () => {
      for (const text of samples) assertSameTokens(theirs, ours, text);
    });
    await check('all samples joined into one text give the same tokens too', () => {
      assertSameTokens(theirs, ours, samples.join('\n'));
    });
    await check('decoding the tokens gives the text again', () => {
      for (const text of samples) {
        assert.equal(ours.detokenize(ours.tokenize(text)).trimStart(), text.trimStart());
      }
    });
    await check('special tokens within a text are found', () => {
      for (const {content, id} of json.added_tokens) {
        const text = `one${content}two\n${content}${content}`;
        assert.equal(ours.tokenize(text, true).filter((token) => token === id).length, 3, content);
        assertSameTokens(theirs, ours, text);
      }
    });
  });
}
