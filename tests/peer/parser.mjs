// An independent parser reads every GGUF file that we write, and finds what distribution.json says.
import assert from 'node:assert/strict';
import {readFileSync} from 'node:fs';
import {join} from 'node:path';
import {GGUFValueType} from '@huggingface/gguf';
import {check, finish} from './checks.mjs';
import {ggufPaths, readGguf, readSet, tensorList, valueOf} from './gguf_files.mjs';
import {inRoot, moepack, workDirectory} from './tool.mjs';

const ALIGNMENT = 32;  // the default, without a key
const work = workDirectory('parser');
const source = inRoot('fixtures/tiny-moe');
const overlay = ['--overlay-file', inRoot('fixtures/tiny-overlay.json')];
const CUT = ['--max-part-size', '500K'];

const aligned = (offset) => Math.ceil(offset / ALIGNMENT) * ALIGNMENT;

// Tensors follow one another; `bytes` are those of the manifest's records.
function assertLaidOut(file, records) {
  assert.equal(valueOf(file, 'general.alignment'), undefined);
  let end = file.tensors[0]?.offset ?? file.size;
  for (const [i, tensor] of file.tensors.entries()) {
    assert.equal(tensor.offset, end, `${file.path}: offset of ${tensor.name}`);
    end = aligned(tensor.offset + records[i].bytes);
  }
  assert.equal(file.size, end, `${file.path}: size`);
}

function assertMatchesRecord(file, bundle, manifest) {
  const plain = ({name, dtype, shape, offset}) =>
    ({name, dtype: dtype.toLowerCase(), shape, offset});
  assert.deepEqual(file.tensors, bundle.tensors.map(plain), bundle.file);
  assert.equal(file.size, bundle.size, bundle.file);
  assertLaidOut(file, bundle.tensors);
  if (bundle.role === 'head') return;
  assert.equal(valueOf(file, 'moepack.role'), bundle.role);
  assert.equal(valueOf(file, 'moepack.model'), manifest.versions.model);
  assert.equal(valueOf(file, 'moepack.group'), bundle.group);
}

function assertHeadIsModel(head, {model}) {
  const architecture = valueOf(head, 'general.architecture');
  const key = (name) => valueOf(head, `${architecture}.${name}`);
  assert.deepEqual(head.tensors, []);
  assert.equal(key('block_count'), model.layers);
  assert.equal(key('expert_count'), model.experts['*']);
  assert.equal(key('expert_used_count'), model.top_k['*']);
  assert.equal(key('embedding_length'), model.hidden_size);
  assert.equal(valueOf(head, 'tokenizer.ggml.tokens').length, model.vocab_size);
}

async function checkDistribution(name, words, moreRoles = []) {
  const directory = join(work, name);
  moepack('build', source, '--groups', '3', '--quantize', 'Q4_K_M', ...words, '-o', directory);
  const manifest = JSON.parse(readFileSync(join(directory, 'distribution.json'), 'utf8'));
  const files = {};
  await check(`${name}: every file is in distribution.json, with these tensors`, async () => {
    assert.deepEqual(ggufPaths(directory), manifest.bundles.map((bundle) => bundle.file).sort());
    for (const bundle of manifest.bundles) {
      const file = await readGguf(join(directory, bundle.file));
      assertMatchesRecord(file, bundle, manifest);
      (files[bundle.role] ??= []).push(file);
    }
    const roles = ['group', 'head', 'routers', 'trunk', ...moreRoles];
    assert.deepEqual(Object.keys(files).sort(), roles.sort());
  });
  await check(`${name}: the head describes the model`, () => {
    assert.equal(files.head.length, 1);
    assertHeadIsModel(files.head[0], manifest);
  });
  await check(`${name}: trunk, routers and a group together form a model`, () => {
    const names = (role) => files[role].flatMap((file) => file.tensors.map(({name}) => name));
    const all = [...names('trunk'), ...new Set([...names('routers'), ...names('group')])];
    assert.deepEqual(all.sort(), full.flatMap((file) => file.tensors.map(({name}) => name)).sort());
    assert.ok(names('trunk').every((tensor) => !/_exps|ffn_gate_inp/.test(tensor)));
  });
  return {directory, manifest};
}

// The keys that llama.cpp requires, with the types it requires.
function assertIsSet(files) {
  for (const [number, file] of files.entries()) {
    assert.deepEqual(file.keys['split.no'], {value: number, type: GGUFValueType.UINT16}, file.path);
  }
  const [{keys}] = files;
  const tensors = files.reduce((sum, file) => sum + file.tensors.length, 0);
  assert.deepEqual(keys['split.count'], {value: files.length, type: GGUFValueType.UINT16});
  assert.deepEqual(keys['split.tensors.count'], {value: tensors, type: GGUFValueType.INT32});
}

function assertHasExperts(files, count) {
  const architecture = valueOf(files[0], 'general.architecture');
  assert.equal(valueOf(files[0], `${architecture}.expert_count`), count);
  const tensors = files.flatMap((file) => file.tensors);
  const perExpert = tensors.filter(({name}) => /_exps\.|ffn_gate_inp\./.test(name));
  assert.ok(perExpert.length > 0);
  for (const {name, shape} of perExpert) assert.equal(shape[0], count, name);
}

async function checkNode(name, {directory, manifest}, experts) {
  const node = (layout) => {
    const out = join(work, `${name}-${layout}`);
    moepack('assemble', directory, '--group', '1', '--layout', layout, '-o', out);
    return readSet(out);
  };
  let split;
  await check(`${name}: a node is a set of head, trunk and experts`, async () => {
    split = await node('split');
    const parts = manifest.bundles.filter((bundle) => bundle.role === 'trunk').length;
    assert.ok(split.length >= 2 + parts);
    assertIsSet(split);
    assert.deepEqual(split[0].tensors, []);
    assertHasExperts(split, experts);
  });
  await check(`${name}: the files after the first have no other split keys`, () => {
    for (const {keys, path} of split.slice(1)) {
      const found = Object.keys(keys).filter((key) => key.startsWith('split.'));
      assert.deepEqual(found, ['split.no'], path);
    }
  });
  await check(`${name}: one file holds the same tensors, and no split keys`, async () => {
    const single = await node('single');
    assert.equal(single.length, 1);
    assert.deepEqual(tensorList(single), tensorList(split));
    assert.deepEqual(Object.keys(single[0].keys).filter((key) => key.startsWith('split.')), []);
    assertHasExperts(single, experts);
  });
}

moepack('quantize', source, '--recipe', 'Q4_K_M', '-o', join(work, 'full', 'model.gguf'));
const full = await readSet(join(work, 'full'));

await check('the whole model cut into parts is a set of the same tensors', async () => {
  moepack('quantize', source, '--recipe', 'Q4_K_M', ...CUT, '-o', join(work, 'cut', 'model.gguf'));
  const parts = await readSet(join(work, 'cut'));
  assert.ok(parts.length > 1);
  assertIsSet(parts);
  assert.deepEqual(tensorList(parts), tensorList(full));
});

await checkNode('groups', await checkDistribution('groups', []), 6);
await checkNode('overlay', await checkDistribution('overlay', overlay, ['overlay']), 8);
await checkNode('parts', await checkDistribution('parts', CUT), 6);

finish();
