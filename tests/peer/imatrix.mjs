// The importance matrix that profile writes, beside llama.cpp's for the same model and tokens, and
// in llama-quantize's reader and quantizer.
// STOCK_IMATRIX in the environment is the program stock_imatrix.cc.
import assert from 'node:assert/strict';
import {execFileSync} from 'node:child_process';
import {readFileSync, writeFileSync} from 'node:fs';
import {join} from 'node:path';
import {check, finish} from './checks.mjs';
import {readGguf, tensorDigests, tensorList} from './gguf_files.mjs';
import {assertSame, generate} from './runtime.mjs';
import {someTokens} from './some_tokens.mjs';
import {inRoot, isSoak, makeFixtures, moepack, workDirectory} from './tool.mjs';

const work = workDirectory('imatrix');
const libraries = inRoot('build/peer/node_modules/@node-llama-cpp/linux-x64/bins/linux-x64');
const CHUNK = 64, CHUNKS = 3;
// llama_ftype
const SOME_TYPES = {Q2_K: 10, Q4_K_M: 15, IQ4_XS: 30, IQ3_M: 27, IQ2_M: 29, TQ1_0: 36};
const OTHER_TYPES = {
  Q2_K_S: 21, IQ3_XXS: 23, IQ3_XS: 22, IQ3_S: 26, IQ2_XXS: 19, IQ2_XS: 20, IQ2_S: 28, IQ1_S: 24,
  IQ1_M: 31, TQ2_0: 37,
};
const TYPES = isSoak ? {...SOME_TYPES, ...OTHER_TYPES} : SOME_TYPES;
const at = (name) => join(work, name);

function stock(...words) {
  return execFileSync(process.env.STOCK_IMATRIX, [libraries, ...words.map(String)],
    {encoding: 'utf8', stdio: ['ignore', 'pipe', 'pipe'], maxBuffer: 1 << 30});
}

// In F32 weights, because for other types llama.cpp rounds the inputs before it multiplies.
async function compare(name, source, vocabulary) {
  const file = at(`${name}-f32.gguf`), ids = at(`${name}.ids`), imatrix = at(`${name}.imatrix`);
  moepack('quantize', source, '--recipe', 'F32', '-o', file);
  writeFileSync(ids, someTokens(CHUNK * CHUNKS, vocabulary).join(' '));
  moepack('profile', file, '--tokens', ids, '--context', CHUNK, '--imatrix', imatrix);
  const found = JSON.parse(stock('compare', file, imatrix, CHUNK, ids));
  await check(`${name}: ${found.entries} entries, sums within ${found.difference}`, () => {
    assert.equal(found.missing, 0);
    assert.equal(found.entries, found.stock);
    assert.equal(found.same_counts, found.stock);
    assert.ok(found.difference < 1e-4, `expected less than 1e-4, found ${found.difference}`);
    assert.deepEqual([found.chunks, found.chunk], [CHUNKS, CHUNK]);
  });
}

const vocabularyOf = (source) =>
  JSON.parse(readFileSync(join(source, 'config.json'), 'utf8')).vocab_size;

const tiny = inRoot('fixtures/tiny-moe');
await compare('tiny-moe', tiny, 1024);
for (const layout of ['deepseek-v2', 'granite-moe', 'phi-3.5-moe']) {
  makeFixtures(layout, at(layout));
  await compare(layout, at(layout), vocabularyOf(at(layout)));
}

// Every expert then has data, and the two programs agree on what to do.
const calibration = at('calibration.imatrix');
moepack('profile', tiny, '--text', inRoot('fixtures/texts/calibration.jsonl'), '--imatrix',
  calibration);
const plain = at('tiny-bf16.gguf');
moepack('quantize', tiny, '--recipe', 'BF16', '-o', plain);
for (const [recipe, type] of Object.entries(TYPES)) {
  await check(`llama-quantize reads it and makes the same ${recipe} as we do`, async () => {
    const theirs = at(`theirs-${recipe}.gguf`), ours = at(`ours-${recipe}.gguf`);
    stock('quantize', calibration, plain, theirs, type);
    moepack('quantize', tiny, '--recipe', recipe, '--imatrix', calibration, '-o', ours);
    const [their, our] = [await readGguf(theirs), await readGguf(ours)];
    assert.deepEqual(tensorList([their]), tensorList([our]));
    assert.deepEqual(tensorDigests(their), tensorDigests(our));
    assertSame(await generate(theirs, 'You may copy and ', 12),
      await generate(ours, 'You may copy and ', 12));
  });
}

function done(act) {
  try {
    act();
    return true;
  } catch {
    return false;
  }
}

for (const [recipe, type] of Object.entries(TYPES)) {
  const theirs = at(`theirs-alone-${recipe}.gguf`), ours = at(`ours-alone-${recipe}.gguf`);
  const stockMakes = done(() => stock('quantize', 'none', plain, theirs, type));
  const verb = stockMakes ? 'makes' : 'refuses';
  await check(`without an importance matrix llama-quantize ${verb} ${recipe}, and so do we`,
    async () => {
      assert.equal(done(() => moepack('quantize', tiny, '--recipe', recipe, '-o', ours)),
        stockMakes);
      if (!stockMakes) return;
      assert.deepEqual(tensorDigests(await readGguf(theirs)), tensorDigests(await readGguf(ours)));
    });
}

finish();
