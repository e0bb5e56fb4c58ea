// Our files in llama.cpp's own tools: llama-quantize, llama-gguf-split --merge and --split. Their
// output loads, and has the expected contents. And the reason for it: the two that copy
// general.alignment but lay data out at 32 break files with another alignment.
// STOCK_TOOLS in the environment is the program stock_tools.cc.
import assert from 'node:assert/strict';
import {execFileSync} from 'node:child_process';
import {readdirSync, readFileSync} from 'node:fs';
import {join} from 'node:path';
import {check, finish} from './checks.mjs';
import {readGguf, tensorList, valueOf} from './gguf_files.mjs';
import {assertSame, difference, generate, meanLoss} from './runtime.mjs';
import {inRoot, makeFixtures, moepack, workDirectory} from './tool.mjs';

const work = workDirectory('stock-tools-files');
const tiny = inRoot('fixtures/tiny-moe');
const libraries = inRoot('build/peer/node_modules/@node-llama-cpp/linux-x64/bins/linux-x64');
const Q4_K_M = 15;  // llama_ftype
const STEPS = 16;
const licence = readFileSync(inRoot('LICENSE'), 'utf8').slice(4000, 5000);

const at = (name) => join(work, name);
const firstOf = (node) => join(node, 'node-00001-of-00003.gguf');
const tokens = (file) => generate(file, 'You may copy and distribute the ', STEPS);

function stock(...words) {
  const program = process.env.STOCK_TOOLS;
  execFileSync(program, [libraries, ...words.map(String)], {stdio: ['ignore', 'ignore', 'pipe']});
}

function merge(first, name) {
  stock('merge', first, at(name));
  return at(name);
}

function requantize(file, name) {
  stock('quantize', file, at(name), Q4_K_M);
  return at(name);
}

// The first file of a split model.
function split(file, name, tensorsPerFile) {
  stock('split', file, at(name), tensorsPerFile);
  return at(readdirSync(work).filter((path) => path.startsWith(`${name}-00001-of-`))[0]);
}

function whole(source, recipe, name, ...words) {
  moepack('quantize', source, '--recipe', recipe, '-o', at(name), ...words);
  return at(name);
}

function build(recipe, name, ...words) {
  moepack('build', tiny, '--groups', '3', '--quantize', recipe, '-o', at(name), ...words);
  return at(name);
}

function assemble(distribution, name, ...words) {
  moepack('assemble', distribution, '--group', '1', '-o', at(name), ...words);
  return at(name);
}

// Both have the same tensors of the same types, and generate the same to the last bit.
async function assertSameModel(one, other) {
  assert.deepEqual(tensorList([await readGguf(one)]), tensorList([await readGguf(other)]));
  assertSame(await tokens(one), await tokens(other));
}

async function assertLosses(one, other, most) {
  const losses = [await meanLoss(one, licence), await meanLoss(other, licence)];
  console.log(`        ${losses.map((loss) => loss.toFixed(4)).join(' and ')} nats per token`);
  assert.equal(losses[0], losses[1]);
  assert.ok(losses[0] < most, `expected less than ${most}`);
}

// It is unusable: stock llama.cpp does not load it, and neither do we.
async function assertBroken(file) {
  await assert.rejects(tokens(file), 'expected that llama.cpp refuses the file');
  assert.throws(() => moepack('list-tensors', file), /status 3/);
}

const distribution = build('Q4_K_M', 'q4');
const exact = build('BF16', 'bf16');
const set = firstOf(assemble(distribution, 'set'));
const single = join(assemble(distribution, 'single', '--layout', 'single'), 'node.gguf');
const full = whole(tiny, 'Q4_K_M', 'q4.gguf');
const fullExact = whole(tiny, 'BF16', 'bf16.gguf');

await check('a node of three files merges into the file that --layout single writes', async () => {
  const merged = merge(set, 'merged.gguf');
  assertSame(await tokens(set), await tokens(merged));
  await assertSameModel(single, merged);
  assert.equal(valueOf(await readGguf(merged), 'general.alignment'), undefined);
});

await check('a requantized node equals the node of the requantized distribution', async () => {
  const node = firstOf(assemble(exact, 'exact'));
  await assertSameModel(single, requantize(node, 'node-q4.gguf'));
  const file = join(assemble(exact, 'exact-single', '--layout', 'single'), 'node.gguf');
  const requantized = requantize(file, 'single-q4.gguf');
  await assertSameModel(single, requantized);
  assert.notEqual(difference(await tokens(file), await tokens(requantized)), '');
});

await check('a merged node can be requantized', async () => {
  const merged = merge(firstOf(assemble(exact, 'to-merge')), 'merged-bf16.gguf');
  await assertSameModel(single, requantize(merged, 'merged-q4.gguf'));
});

await check('a requantized whole model has the same loss as one that we quantize', async () => {
  const requantized = requantize(fullExact, 'full-q4.gguf');
  await assertSameModel(full, requantized);
  await assertLosses(full, requantized, 3.7);
});

await check('a model of several files can be requantized and merged', async () => {
  whole(tiny, 'BF16', 'cut/model.gguf', '--max-part-size', '1M');
  const first = join(at('cut'), readdirSync(at('cut')).sort()[0]);
  await assertSameModel(full, requantize(first, 'cut-q4.gguf'));
  await assertSameModel(fullExact, merge(first, 'cut-merged.gguf'));
});

await check('a model that is split again generates the same', async () => {
  assertSame(await tokens(full), await tokens(split(full, 'again', 7)));
  assertSame(await tokens(single), await tokens(split(at('merged.gguf'), 'node-again', 10)));
  assertSame(await tokens(single), await tokens(split(single, 'single-again', 10)));
});

await check('a model that llama.cpp has split can be quantized', async () => {
  const first = split(fullExact, 'theirs', 9);
  assertSame(await tokens(full), await tokens(whole(first, 'Q4_K_M', 'ours.gguf')));
});

// Why we write 32: everything above goes wrong with --alignment 4096.
const paged = build('Q4_K_M', 'paged', '--alignment', '4096');

await check('a node at 4096 generates the same, and is broken when merged', async () => {
  const node = firstOf(assemble(paged, 'paged-set', '--alignment', '4096'));
  assertSame(await tokens(set), await tokens(node));
  await assertBroken(merge(node, 'paged-merged.gguf'));
});

await check('a model at 4096 generates the same, and is broken when requantized', async () => {
  const file = whole(tiny, 'BF16', 'paged.gguf', '--alignment', '4096');
  assertSame(await tokens(fullExact), await tokens(file));
  await assertBroken(requantize(file, 'paged-q4.gguf'));
});

await check('a node of a distribution at 4096 is written at 32, and merges', async () => {
  const node = firstOf(assemble(paged, 'mended-set'));
  assertSame(await tokens(set), await tokens(node));
  await assertSameModel(single, merge(node, 'mended.gguf'));
});

// llama.cpp does not read the rank of the queries in models of 27 layers, and does not need it.
await check('a DeepSeek-V2-Lite of 27 layers loads without a rank of its queries', async () => {
  makeFixtures('deepseek-v2', at('lite'), '--layers', '27');
  const file = whole(at('lite'), 'BF16', 'lite.gguf');
  assert.equal(valueOf(await readGguf(file), 'deepseek2.attention.q_lora_rank'), undefined);
  assert.equal((await tokens(file)).steps.length, STEPS);
});

finish();
