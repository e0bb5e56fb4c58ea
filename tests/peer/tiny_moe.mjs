// The bundled trained model: whole, cut in three, with an overlay, in BF16 and quantized.
import assert from 'node:assert/strict';
import {readFileSync, writeFileSync} from 'node:fs';
import {join} from 'node:path';
import {check, finish} from './checks.mjs';
import {checkNodes} from './nodes.mjs';
import {meanLoss, withModel} from './runtime.mjs';
import {inRoot, makeFixtures, moepack, workDirectory} from './tool.mjs';

const work = workDirectory('tiny-moe');
const source = inRoot('fixtures/tiny-moe');
const overlay = inRoot('fixtures/tiny-overlay.json');
const prompt = 'You may copy and distribute the ';

await checkNodes({source, overlay, work, prompt, recipe: 'BF16'});
await checkNodes({source, overlay, work, prompt, recipe: 'Q4_K_M', links: true});
const calibrated = workDirectory('tiny-moe-calibrated');
await checkNodes({source, overlay, work: calibrated, prompt, recipe: 'Q4_K_M',
                  words: ['--calibrate', inRoot('fixtures/tiny-moe/NOTE.md'),
                          '--calibrated-store', join(calibrated, 'store')]});

// The losses of fixtures/tiny-moe/NOTE.md, on a text of the same kind: a faulty conversion ends far
// above them, and a model that knows nothing at ln 1024 = 6.93.
const licence = readFileSync(inRoot('LICENSE'), 'utf8').slice(4000, 5000);
const losses = {};
for (const [recipe, most] of [['BF16', 3.6], ['Q4_K_M', 3.7]]) {
  await check(`${recipe} predicts a licence as well as it should`, async () => {
    losses[recipe] = await meanLoss(join(work, `${recipe}-full.gguf`), licence);
    console.log(`        ${losses[recipe].toFixed(3)} nats per token`);
    assert.ok(losses[recipe] < most, `expected less than ${most}`);
  });
}

const loads = (path) => withModel(path, (model) => assert.ok(model.size > 0));

// Types of GGUF values that cannot be told apart by their bytes.
for (const [name, key, type] of [['i32', 'qwen3moe.expert_used_count', 5],
                                 ['f32', 'qwen3moe.attention.head_count', 6]]) {
  await check(`a file whose ${key} is ${name} does not load, and a node of it does`, async () => {
    const bytes = readFileSync(join(work, 'BF16-full.gguf'));
    const at = bytes.indexOf(key) + key.length;
    const value = bytes.readUInt32LE(at + 4);
    bytes.writeUInt32LE(type, at);
    if (name === 'f32') bytes.writeFloatLE(value, at + 4);
    const file = join(work, `${name}.gguf`), distribution = join(work, name);
    writeFileSync(file, bytes);
    await assert.rejects(loads(file));
    moepack('build', file, '--groups', '2', '-o', distribution);
    const node = join(work, `${name}-node`);
    moepack('assemble', distribution, '--group', '0', '-o', node);
    await loads(join(node, 'node-00001-of-00003.gguf'));
  });
}

await check('a file without its announced prediction block loads after --no-mtp', async () => {
  const checkpoint = join(work, 'mtp'), whole = join(work, 'mtp.gguf');
  makeFixtures('qwen3.5-moe', checkpoint);
  moepack('quantize', checkpoint, '--recipe', 'BF16', '-o', whole);
  await loads(whole);
  const without = join(work, 'without.gguf'), distribution = join(work, 'without');
  moepack('quantize', whole, '--no-mtp', '--recipe', 'BF16', '-o', without);
  await loads(without);
  moepack('build', whole, '--no-mtp', '--groups', '2', '-o', distribution);
  const node = join(work, 'without-node');
  moepack('assemble', distribution, '--group', '1', '-o', node);
  await loads(join(node, 'node-00001-of-00003.gguf'));
});

finish();
