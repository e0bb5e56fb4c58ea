// A generated Mixtral with a SentencePiece vocabulary: whole, cut in three, with an overlay.
import assert from 'node:assert/strict';
import {writeFileSync} from 'node:fs';
import {join} from 'node:path';
import {check, finish} from './checks.mjs';
import {checkNodes} from './nodes.mjs';
import {readGguf, valueOf} from './gguf_files.mjs';
import {withModel} from './runtime.mjs';
import {readSamples} from './samples.mjs';
import {makeFixtures, workDirectory} from './tool.mjs';

const work = workDirectory('mixtral');
const source = join(work, 'source');
makeFixtures('mixtral', source, '--layers', '2', '--experts', '6', '--hidden', '256', '--ff', '256',
  '--head-size', '64', '--vocabulary', '512', '--tokenizer', 'spm');
const overlay = join(work, 'overlay.json');
writeFileSync(overlay, JSON.stringify({version: 'v1', layers: {0: '0', 1: '5'}}));

for (const recipe of ['BF16', 'Q4_K_M']) {
  await checkNodes({source, overlay, work, recipe, prompt: 'To be or not to be: that is'});
}

const file = join(work, 'BF16-full.gguf');
await check('its SentencePiece vocabulary merges by score and falls back to bytes', async () => {
  const names = valueOf(await readGguf(file), 'tokenizer.ggml.tokens');
  await withModel(file, (model) => {
    const pieces = (text) => model.tokenize(text).map((token) => names[token]);
    assert.deepEqual(pieces('the string'), ['▁the', '▁st', 'r', 'ing']);
    assert.deepEqual(pieces('中ç'), ['▁', '中', '<0xC3>', '<0xA7>']);
    assert.ok(model.tokens.shouldPrependBosToken);
    for (const text of readSamples()) {
      assert.equal(model.detokenize(model.tokenize(text)).trimStart(), text.trimStart());
    }
  });
});

finish();
