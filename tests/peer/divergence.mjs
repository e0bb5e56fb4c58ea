// What llama.cpp's perplexity tool says of the divergence of a plain and of a calibrated file,
// beside `moepack eval --against --score-half` on the same tokens.
// STOCK_KLD in the environment is the program stock_kld.cc.
import assert from 'node:assert/strict';
import {execFileSync} from 'node:child_process';
import {readFileSync, writeFileSync} from 'node:fs';
import {join} from 'node:path';
import {check, finish} from './checks.mjs';
import {withModel} from './runtime.mjs';
import {inRoot, moepack, workDirectory} from './tool.mjs';

const work = workDirectory('divergence');
const tiny = inRoot('fixtures/tiny-moe');
const libraries = inRoot('build/peer/node_modules/@node-llama-cpp/linux-x64/bins/linux-x64');
const CONTEXT = 128, CHUNKS = 24, AT_MOST = 0.05;
const ids = join(work, 'held-out.ids');

// The held-out sessions one after another, in whole chunks.
async function writeTokens(file) {
  const lines = readFileSync(inRoot('fixtures/texts/held-out.jsonl'), 'utf8').trim().split('\n');
  const texts = lines.map((line) => JSON.parse(line).text).join('\n');
  const tokens = await withModel(file, (model) => model.tokenize(texts));
  assert.ok(tokens.length >= CONTEXT * CHUNKS);
  writeFileSync(ids, tokens.slice(0, CONTEXT * CHUNKS).join(' '));
}

function make(name, recipe, ...words) {
  const file = join(work, `${name}.gguf`);
  moepack('quantize', tiny, '--recipe', recipe, ...words, '-o', file);
  return file;
}

const ours = (file) => JSON.parse(moepack('eval', file, '--against', tiny, '--tokens', ids,
  '--context', `${CONTEXT}`, '--score-half', '--generate', '0', '--json')).quantization.kld.mean;

const base = make('base', 'BF16');
await writeTokens(base);
const plain = make('plain', 'Q4_K_M');
const calibrated = make('calibrated', 'Q4_K_M', '--calibrate',
  inRoot('fixtures/texts/calibration.jsonl'), '--most-tokens', '4000', '--context', '128');
const theirs = execFileSync(process.env.STOCK_KLD,
  [libraries, base, `${CONTEXT}`, ids, plain, calibrated], {encoding: 'utf8'})
  .trim().split('\n').map(Number);

for (const [place, file] of [plain, calibrated].entries()) {
  const name = place === 0 ? 'the plain file' : 'the calibrated file';
  const own = ours(file), stock = theirs[place];
  await check(`${name}: ${stock} by llama.cpp, ${own} by eval`, () => {
    const off = Math.abs(own / stock - 1);
    assert.ok(off < AT_MOST, `expected a difference below ${AT_MOST}, found ${off}`);
  });
}
await check('the calibrated file diverges less in llama.cpp, too', () => {
  assert.ok(theirs[1] < 0.8 * theirs[0], `expected less than 0.8 of ${theirs[0]}`);
});

finish();
