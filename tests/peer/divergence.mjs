// The divergence of a plain and of a calibrated file in llama.cpp, beside `moepack eval --against
// --score-half` on the same tokens. llama.cpp's perplexity tool is not in the npm package, so what
// it does is written out here, after its tools/perplexity/perplexity.cpp (--kl-divergence-base,
// --kl-divergence; read at 050fc7f32de1): of each chunk the second half is scored. Of the base it
// keeps logarithms of probabilities in 16 bits: even steps between the largest and what is 16 below
// it, or the smallest if that is more. Tokens whose logarithm is then not above -16 do not count.
import assert from 'node:assert/strict';
import {readFileSync, writeFileSync} from 'node:fs';
import {join} from 'node:path';
import {check, finish} from './checks.mjs';
import {logProbabilities, withModel} from './runtime.mjs';
import {inRoot, moepack, workDirectory} from './tool.mjs';

const work = workDirectory('divergence');
const tiny = inRoot('fixtures/tiny-moe');
const CONTEXT = 128, CHUNKS = 24, LEAST = -16, STEPS = 65535;
const ids = join(work, 'held-out.ids');

// The held-out sessions one after another, in whole chunks.
async function writeTokens(file) {
  const lines = readFileSync(inRoot('fixtures/texts/held-out.jsonl'), 'utf8').trim().split('\n');
  const texts = lines.map((line) => JSON.parse(line).text).join('\n');
  const tokens = await withModel(file, (model) => model.tokenize(texts));
  assert.ok(tokens.length >= CONTEXT * CHUNKS);
  writeFileSync(ids, tokens.slice(0, CONTEXT * CHUNKS).join(' '));
  return tokens.slice(0, CONTEXT * CHUNKS);
}

// The logarithms of probabilities at all scored positions.
async function scoredRows(file, tokens) {
  const all = [];
  for (let first = 0; first < tokens.length; first += CONTEXT) {
    const chunk = tokens.slice(first, first + CONTEXT);
    const {rows} = await logProbabilities(file, () => chunk);
    all.push(...rows.slice(CONTEXT / 2, CONTEXT - 1));
  }
  return all;
}

function kept(row) {
  const most = Math.max(...row), least = Math.max(Math.min(...row), most + LEAST);
  const step = (most - least) / STEPS;
  return row.map((value) => least + step * Math.round(Math.max(value - least, 0) / step));
}

const divergence = (base, row) => base.reduce((sum, value, token) =>
  value > LEAST ? sum + Math.exp(value) * (value - row[token]) : sum, 0);

function meanDivergence(base, rows) {
  const sum = rows.reduce((total, row, place) => total + divergence(base[place], row), 0);
  return sum / rows.length;
}

function make(name, recipe, ...words) {
  const file = join(work, `${name}.gguf`);
  moepack('quantize', tiny, '--recipe', recipe, ...words, '-o', file);
  return file;
}

const ours = (file) => JSON.parse(moepack('eval', file, '--against', tiny, '--tokens', ids,
  '--context', `${CONTEXT}`, '--score-half', '--generate', '0', '--json')).quantization.kld.mean;

const decode = (file, name) => {
  const decoded = join(work, `${name}.gguf`);
  moepack('quantize', file, '--recipe', 'F32', '--allow-requantize', '-o', decoded);
  return decoded;
};

const base = make('base', 'F32');
const tokens = await writeTokens(base);
const keptBase = (await scoredRows(base, tokens)).map(kept);
const stock = async (file) => meanDivergence(keptBase, await scoredRows(file, tokens));
const files = {
  plain: make('plain', 'Q4_K_M'),
  calibrated: make('calibrated', 'Q4_K_M', '--calibrate',
    inRoot('fixtures/texts/calibration.jsonl'), '--most-tokens', '4000', '--context', '128'),
};

// eval multiplies in F32. llama.cpp does so with decoded weights; of a quantized file it rounds the
// activations to eight bits, which costs about as much again for either file.
const inStock = {};
for (const [name, file] of Object.entries(files)) {
  const own = ours(file), decoded = await stock(decode(file, `${name}-f32`));
  inStock[name] = await stock(file);
  await check(`the ${name} weights: ${decoded} by llama.cpp, ${own} by eval`, () => {
    const off = Math.abs(own / decoded - 1);
    assert.ok(off < 0.01, `expected a difference below 0.01, found ${off}`);
  });
}
await check('the calibrated file diverges less with activations of eight bits, too', () => {
  const share = inStock.calibrated / inStock.plain;
  assert.ok(share < 0.8, `expected less than 0.8 of ${inStock.plain}, found ${share} of it`);
});

finish();
