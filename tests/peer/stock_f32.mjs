// Writes fixtures/golden/convert/FAMILY/stock-f32.json for families of golden/convert-2026: what
// llama.cpp computes from the checkpoint's exact conversion as an F32 file (FP8 with scales becomes
// BF16, as the runtime shim reads it), with which the runtime shim's test of golden families
// compares (tests/runtime-shim/session/golden_families_test.cc). The tables of NOTE.md are of BF16
// files with keys and values in half floats, whose rounding no other program repeats. Families
// whose attention changes after more tokens than those of NOTE.md also get stock-f32-long.json. It
// is no test: run it once for a new family.
// usage: run.sh stock_f32.mjs ROOT MOEPACK MAKE_FIXTURES WORK_DIR FAMILY...
import {cpSync, mkdirSync, readFileSync, readdirSync, writeFileSync} from 'node:fs';
import {join} from 'node:path';
import {logProbabilities} from './runtime.mjs';
import {goldenCheckpoint, inRoot, moepack, workDirectory} from './tool.mjs';

// How many tokens a longer text has: for DeepSeek-V4 more than a compressed key stands for, for
// Qwen3.8-Flash-Next many times what an indexer picks. There every 16th token ends n-grams.
const longTexts = {
  'deepseek-v4': {count: 160}, 'qwen3.8-flash-next': {count: 160, end: 1020},
};
const END_EVERY = 16;
// Recipes leave some matrices of these in BF16, and llama.cpp would round what it multiplies them
// with. Their checkpoints become F32 before they are converted.
const widenedFirst = ['qwen3.8-flash-next'];

// Numbers of a small generator, below `size`, and `end` in places if it is a number.
function someTokens({count, end}, size) {
  const mask = (1n << 64n) - 1n;
  let state = 3n;
  return Array.from({length: count}, (_, position) => {
    state = (state * 6364136223846793005n + 1442695040888963407n) & mask;
    if (end !== undefined && position % END_EVERY === END_EVERY - 1) return end;
    return Number(state >> 33n) % size;
  });
}

// A safetensors file whose BF16 values are F32.
function widenedFile(bytes) {
  const headerBytes = Number(bytes.readBigUInt64LE(0));
  const header = JSON.parse(bytes.toString('utf8', 8, 8 + headerBytes));
  const parts = [];
  let end = 0;
  for (const [name, tensor] of Object.entries(header)) {
    if (name === '__metadata__') continue;
    const [first, last] = tensor.data_offsets.map((offset) => offset + 8 + headerBytes);
    let data = bytes.subarray(first, last);
    if (tensor.dtype === 'BF16') {
      tensor.dtype = 'F32';
      const wide = Buffer.alloc(2 * data.length);
      for (let i = 0; i < data.length; i += 2) data.copy(wide, 2 * i + 2, i, i + 2);
      data = wide;
    }
    tensor.data_offsets = [end, end + data.length];
    end += data.length;
    parts.push(data);
  }
  const text = Buffer.from(JSON.stringify(header));
  const padding = Buffer.alloc((8 - text.length % 8) % 8, ' ');
  const length = Buffer.alloc(8);
  length.writeBigUInt64LE(BigInt(text.length + padding.length));
  return Buffer.concat([length, text, padding, ...parts]);
}

function widened(source, folder) {
  cpSync(source, folder, {recursive: true});
  for (const name of readdirSync(source)) {
    if (!name.endsWith('.safetensors')) continue;
    writeFileSync(join(folder, name), widenedFile(readFileSync(join(source, name))));
  }
  return folder;
}

async function write(family, name, file, tokensOf) {
  const {tokens, rows} = await logProbabilities(file, tokensOf);
  const lines = rows.map((row, position) => {
    const likeliest = row.indexOf(Math.max(...row));
    const logProbability = Number(row[likeliest].toFixed(6));
    return `    ${JSON.stringify([tokens[position], likeliest, logProbability])}`;
  });
  const folder = inRoot('fixtures/golden/convert', family);
  mkdirSync(folder, {recursive: true});
  writeFileSync(join(folder, name),
    '{\n  "made_with": "llama.cpp v0.5.0, F32 weights, keys and values",\n' +
    `  "token_likeliest_log_probability": [\n${lines.join(',\n')}\n  ]\n}\n`);
  console.log(`${family}: ${rows.length} positions`);
}

const work = workDirectory('stock-f32');
for (const family of process.argv.slice(6)) {
  const source = goldenCheckpoint(family);
  const note = readFileSync(join(source, 'NOTE.md'), 'utf8');
  const ids = JSON.parse(note.match(/Prompt ids `(\[[^`]*\])`/)[1]);
  const file = join(work, `${family}.gguf`);
  const exact = join(work, `${family}-exact.gguf`);
  const from = widenedFirst.includes(family) ? widened(source, join(work, family)) : source;
  moepack('quantize', from, '--recipe', 'exact', '-o', exact);
  moepack('quantize', exact, '--recipe', 'F32', '--allow-requantize', '-o', file);
  await write(family, 'stock-f32.json', file, () => ids);
  if (family in longTexts) {
    await write(family, 'stock-f32-long.json', file,
      (vocabulary) => someTokens(longTexts[family], vocabulary));
  }
}
process.exit(0);
