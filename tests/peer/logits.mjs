// The runtime shim against llama.cpp on the same GGUF and the same tokens: every family that runs,
// from golden/convert or generated, and nodes after a refit.
// PRINT_LOGITS in the environment is the program print_logits.cc.
import assert from 'node:assert/strict';
import {execFileSync} from 'node:child_process';
import {readFileSync} from 'node:fs';
import {join} from 'node:path';
import {check, finish} from './checks.mjs';
import {logProbabilities, withModel} from './runtime.mjs';
import {someTokens} from './some_tokens.mjs';
import {
  goldenCheckpoint, inRoot, isSoak, makeFixtures, moepack, workDirectory,
} from './tool.mjs';

const printLogits = process.env.PRINT_LOGITS;
const TOP = 20;
const TEXT_TOKENS = 400;

const golden = [
  'deepseek-v3', 'glm-4.5', 'gpt-oss', 'kimi-k2.5', 'llama-4', 'mixtral', 'qwen2-moe', 'qwen3-moe',
  'qwen3.5-moe', 'ling-3', 'mistral-4', 'cohere2moe', 'nemotron-3-puzzle', 'exaone-moe',
  'solar-open', 'afmoe', 'smallthinker', 'grovemoe', 'glm-5.2', 'granite-4-h', 'hy3', 'laguna',
  'lfm2-moe', 'qwen3-vl-moe', 'deepseek-v4', 'qwen3.8-flash-next', 'kimi-k3',
];
const generated = [
  'olmoe', 'deepseek-v2', 'glm-4.7-flash', 'minimax-m2', 'granite-moe', 'phi-3.5-moe',
  'dots1', 'ernie-4.5', 'hunyuan', 'bailing', 'bailing-moe-v2', 'qwen3-next', 'mimo-v2',
  'step-3.5', 'deepseek-v3.2', 'glm-5', 'nemotron-3', 'nemotron-3-super',
  'minimax-m3', 'cohere2-moe',
  'gemma-4', 'gemma-4-int4',
];
const fewBits = [
  'IQ3_S', 'IQ3_XXS', 'IQ2_S', 'IQ2_XS', 'IQ2_XXS', 'IQ1_M', 'IQ1_S', 'TQ2_0', 'TQ1_0',
];
// llama.cpp looks GELU up in a table of halves.
const roughActivation = ['gemma-4', 'gemma-4-int4'];
// llama.cpp rounds activations to eight bits before it multiplies them with quantized weights, and
// to bf16 for bf16; cpu-rounded does so too.
const executors = ['cpu', 'cpu-rounded'];

function ours(file, executor, tokens) {
  const text = execFileSync(printLogits, [file, executor, ...tokens.map(String)], {
    encoding: 'utf8', stdio: ['ignore', 'pipe', 'pipe'], maxBuffer: 1 << 30,
  });
  return text.trim().split('\n').map((line) => JSON.parse(line));
}

// Largest difference among the reference's likeliest tokens, over all positions.
function topDifference(reference, found) {
  let largest = 0;
  for (const [position, row] of reference.entries()) {
    const order = [...row.keys()].sort((a, b) => row[b] - row[a]).slice(0, TOP);
    for (const id of order) {
      largest = Math.max(largest, Math.abs(row[id] - found[position][id]));
    }
  }
  return largest;
}

// Of each position, ascending.
function divergences(reference, found) {
  const rows = reference.map((row, position) =>
    row.reduce((sum, value, id) => sum + Math.exp(value) * (value - found[position][id]), 0));
  return rows.sort((a, b) => a - b);
}

// Standard deviation of the reference's log-probabilities at a position, the smallest of all.
function smallestSpread(reference) {
  const spreads = reference.map((row) => {
    const centre = mean(row);
    return Math.sqrt(mean(row.map((value) => (value - centre) ** 2)));
  });
  return Math.min(...spreads);
}

const mean = (values) => values.reduce((sum, value) => sum + value, 0) / values.length;

async function compare(name, source, work, recipe, words) {
  const file = join(work, `${name}-${recipe}.gguf`);
  moepack('quantize', source, '--recipe', recipe, '-o', file, ...words);
  const {tokens, rows} = await logProbabilities(file, (size) => someTokens(48, size));
  // Without rounding, quantized weights give other figures, which are only printed.
  for (const executor of recipe === 'F32' || isSoak ? executors : ['cpu-rounded']) {
    const found = ours(file, executor, tokens);
    assert.equal(found.length, rows.length);
    const top = topDifference(rows, found), spread = divergences(rows, found);
    const median = spread[spread.length >> 1];
    const label = `${name} ${recipe} on ${executor}: top-${TOP} ${top.toExponential(1)}, ` +
      `KLD mean ${mean(spread).toExponential(1)}, median ${median.toExponential(1)}`;
    if (recipe !== 'F32' && executor === 'cpu') {
      console.log(`        ${label}`);
      continue;
    }
    await check(label, () => {
      // Models of small random weights say little: the limit shrinks with the spread of their
      // predictions.
      const factor = roughActivation.includes(name) ? 5 : 1;
      const limit = factor * 1e-3 * Math.min(1, smallestSpread(rows));
      if (recipe === 'F32') assert.ok(top < limit, `expected less than ${limit}, found ${top}`);
      // Another order of summation moves an activation over the edge of a rounding step, and
      // sometimes a router's choice with it: single positions may differ, and others on other
      // machines.
      assert.ok(median < 1e-3, `expected a median KLD below 1e-3, found ${median}`);
      assert.ok(mean(spread) < 0.05, `expected a mean KLD below 0.05, found ${mean(spread)}`);
    });
  }
}

const perplexity = (tokens, rows) =>
  Math.exp(-mean(tokens.slice(1).map((token, position) => rows[position][token])));

// A node as assemble makes it of the distribution, on a text that it was not refitted on.
async function compareRefitted(work, distribution, recipe, executor, limit) {
  const node = join(work, `node-${recipe}`);
  moepack('assemble', distribution, '--group', '1', '--layout', 'single', '-o', node);
  const file = join(node, 'node.gguf');
  const text = readFileSync(inRoot('fixtures/texts/header.txt'), 'utf8');
  const chosen = await withModel(file, (model) => model.tokenize(text).slice(0, TEXT_TOKENS));
  const {tokens, rows} = await logProbabilities(file, () => chosen);
  const theirs = perplexity(tokens, rows), own = perplexity(tokens, ours(file, executor, tokens));
  const label = `a refitted node in ${recipe} on ${executor}`;
  await check(`${label}: perplexity ${theirs}, ours ${own}`, () => {
    assert.ok(Math.abs(own / theirs - 1) < limit, `expected a ratio within ${limit} of 1`);
  });
}

const work = workDirectory('logits');
const sources = ['tiny-moe', 'tiny-sigmoid'].map((name) => [name, inRoot('fixtures', name)]);
for (const name of golden) {
  const source = goldenCheckpoint(name);
  if (source === null) console.log(`skipped ${name}: no golden/convert; set MOEPACK_SHARED`);
  else sources.push([name, source]);
}
for (const layout of generated) {
  makeFixtures(layout, join(work, layout));
  sources.push([layout, join(work, layout)]);
}
for (const [name, source] of sources) {
  // The experts of these are already quantized.
  const quantized = ['gpt-oss', 'deepseek-v4', 'kimi-k3'];
  const words = quantized.includes(name) ? ['--allow-requantize'] : [];
  const every = isSoak || name === 'tiny-moe';
  for (const recipe of every ? ['F32', 'BF16', 'Q8_0', 'Q4_K_M'] : ['F32', 'Q4_K_M']) {
    await compare(name, source, work, recipe, words);
  }
}
// Types that an importance matrix is for, and the ternary ones.
const tiny = inRoot('fixtures/tiny-moe'), importance = join(work, 'tiny-moe.imatrix');
moepack('profile', tiny, '--text', inRoot('fixtures/texts/calibration.jsonl'), '--imatrix',
  importance);
for (const recipe of fewBits) {
  await compare('tiny-moe', tiny, work, recipe, ['--imatrix', importance]);
}
// One refit for both.
const exact = join(work, 'refitted-F32'), quantized = join(work, 'refitted-Q4_K_M');
moepack('build', tiny, '--groups', '2', '--quantize', 'F32', '--refit',
        '--text', inRoot('fixtures/texts/manual.md'), '--context', '64', '--most-tokens', '300',
        '--least-tokens', '20', '--updates', '4', '-o', exact);
moepack('build', tiny, '--groups', '2', '--quantize', 'Q4_K_M', '--refit-store', `${exact}.refit`,
        '-o', quantized);
await compareRefitted(work, exact, 'F32', 'cpu', 1e-4);
await compareRefitted(work, quantized, 'Q4_K_M', 'cpu-rounded', 1e-2);

finish();
