// Writes fixtures/golden/convert/FAMILY/stock-f32.json for families of golden/convert-2026: what
// llama.cpp computes from the checkpoint's exact conversion as an F32 file (FP8 with scales becomes
// BF16, as the runtime shim reads it), with which the runtime shim's test of golden families
// compares (tests/runtime-shim/session/golden_families_test.cc). The tables of NOTE.md are of BF16
// files with keys and values in half floats, whose rounding no other program repeats. It is no
// test: run it once for a new family.
// usage: run.sh stock_f32.mjs ROOT MOEPACK MAKE_FIXTURES WORK_DIR FAMILY...
import {mkdirSync, readFileSync, writeFileSync} from 'node:fs';
import {join} from 'node:path';
import {logProbabilities} from './runtime.mjs';
import {goldenCheckpoint, inRoot, moepack, workDirectory} from './tool.mjs';

const work = workDirectory('stock-f32');
for (const family of process.argv.slice(6)) {
  const source = goldenCheckpoint(family);
  const note = readFileSync(join(source, 'NOTE.md'), 'utf8');
  const ids = JSON.parse(note.match(/Prompt ids `(\[[^`]*\])`/)[1]);
  const file = join(work, `${family}.gguf`);
  const exact = join(work, `${family}-exact.gguf`);
  moepack('quantize', source, '--recipe', 'exact', '-o', exact);
  moepack('quantize', exact, '--recipe', 'F32', '--allow-requantize', '-o', file);
  const {rows} = await logProbabilities(file, () => ids);
  const positions = rows.map((row, position) => {
    const likeliest = row.indexOf(Math.max(...row));
    return [ids[position], likeliest, Number(row[likeliest].toFixed(6))];
  });
  const lines = positions.map((position) => `    ${JSON.stringify(position)}`).join(',\n');
  const folder = inRoot('fixtures/golden/convert', family);
  mkdirSync(folder, {recursive: true});
  writeFileSync(join(folder, 'stock-f32.json'),
    '{\n  "made_with": "llama.cpp v0.5.0, F32 weights, keys and values",\n' +
    `  "token_likeliest_log_probability": [\n${lines}\n  ]\n}\n`);
  console.log(`${family}: ${positions.length} positions`);
}
process.exit(0);
