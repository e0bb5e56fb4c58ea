// Requirements on the nodes of any model: they generate the same as a file of the same experts.
import assert from 'node:assert/strict';
import {lstatSync, readdirSync, readFileSync, statSync} from 'node:fs';
import {join} from 'node:path';
import {check} from './checks.mjs';
import {assertSame, difference, generate} from './runtime.mjs';
import {inRoot, moepack} from './tool.mjs';

const STEPS = 32;

const firstFile = (node) => join(node, 'node-00001-of-00003.gguf');
const trunkFile = (node) => join(node, 'node-00002-of-00003.gguf');

function assertGenerated({text, steps}) {
  assert.equal(steps.length, STEPS);
  assert.notEqual(text, '');
  for (const {token, probabilities} of steps) {
    const sum = probabilities.reduce((total, value) => total + value, 0);
    assert.ok(Math.abs(sum - 1) < 1e-3, `expected probabilities that add up to 1, found ${sum}`);
    assert.equal(probabilities[token], Math.max(...probabilities), 'expected the likeliest token');
  }
}

// One model in one recipe; each call of moepack writes to a separate path.
class Nodes {
  // `words` go to every command that chooses types.
  constructor({source, recipe, prompt, work, words = []}) {
    Object.assign(this, {source, recipe, prompt, work, words});
  }

  path(name) {
    return join(this.work, `${this.recipe}-${name}`);
  }

  convert() {
    const file = this.path('full.gguf');
    moepack('quantize', this.source, '--recipe', this.recipe, '-o', file, ...this.words);
    return file;
  }

  build(name, ...words) {
    const distribution = this.path(name);
    moepack('build', this.source, '--quantize', this.recipe, '-o', distribution, ...this.words,
            ...words);
    return distribution;
  }

  assemble(name, distribution, ...words) {
    const node = this.path(name);
    moepack('assemble', distribution, '-o', node, ...words);
    return node;
  }

  generate(file) {
    return generate(file, this.prompt, STEPS);
  }
}

async function checkSplitAndSingle(nodes, label, distribution, group) {
  const words = ['--group', group];
  let split;
  await check(`${label}: group ${group} as a split set generates`, async () => {
    const node = nodes.assemble(`${label}-split`, distribution, ...words);
    split = await nodes.generate(firstFile(node));
    assertGenerated(split);
  });
  await check(`${label}: as a single file it gives the same tokens and probabilities`, async () => {
    const node = nodes.assemble(`${label}-single`, distribution, ...words, '--layout', 'single');
    assert.deepEqual(readdirSync(node).filter((name) => name.endsWith('.gguf')), ['node.gguf']);
    assertSame(split, await nodes.generate(join(node, 'node.gguf')));
  });
  return split;
}

async function checkTrunks(nodes, distribution, group1) {
  const kind = (link, group) =>
    nodes.assemble(`${link}-${group}`, distribution, '--group', group, '--link', link);
  await check('two nodes share the inode of the trunk', () => {
    const inodes = ['0', '1'].map((group) => statSync(trunkFile(kind('auto', group))).ino);
    assert.equal(inodes[0], inodes[1]);
    assert.equal(inodes[0], statSync(join(distribution, 'trunk/trunk.gguf')).ino);
  });
  await check('copied trunks are other files with the same bytes', () => {
    const trunks = ['0', '1'].map((group) => trunkFile(kind('copy', group)));
    assert.notEqual(statSync(trunks[0]).ino, statSync(trunks[1]).ino);
    assert.ok(readFileSync(trunks[0]).equals(readFileSync(trunks[1])));
  });
  await check('a node with a symbolic link for a trunk generates the same', async () => {
    const node = kind('symlink', '1');
    assert.ok(lstatSync(trunkFile(node)).isSymbolicLink());
    assertSame(group1, await nodes.generate(firstFile(node)));
  });
}

async function checkAllExperts(nodes, full) {
  const distribution = nodes.build('one-group', '--groups', '1');
  const all = await checkSplitAndSingle(nodes, 'all experts', distribution, '0');
  await check('a node of all experts gives the tokens and probabilities of the whole model', () => {
    assertSame(full, all);
  });
}

// A refit leaves a model of the same architecture, which loads like any other.
async function checkRefit(nodes, third) {
  const text = inRoot('fixtures/texts/manual.md');
  const texts = ['--text', text, '--context', '128', '--least-tokens', '20', '--updates',
    '20'];
  const distribution = nodes.build('refit', '--groups', '3', '--refit', ...texts, '--prove');
  const node = await checkSplitAndSingle(nodes, 'refitted', distribution, '1');
  await check('the refit changes the probabilities', () => {
    assert.notEqual(difference(third, node), '');
  });
}

// `overlay` is a file; `links` requests the checks of how a trunk gets into a node, too.
export async function checkNodes({overlay, links, ...model}) {
  const nodes = new Nodes(model);
  console.log(`${model.source} as ${model.recipe}`);
  let full;
  await check('the whole model generates', async () => {
    full = await nodes.generate(nodes.convert());
    assertGenerated(full);
    console.log(`        ${JSON.stringify(full.text)}`);
  });
  const distribution = nodes.build('three-groups', '--groups', '3');
  const third = await checkSplitAndSingle(nodes, 'a third', distribution, '1');
  await check('a third of the experts gives other probabilities than all', () => {
    assert.notEqual(difference(full, third), '');
  });
  if (links) await checkTrunks(nodes, distribution, third);
  if (links) await checkRefit(nodes, third);
  await checkAllExperts(nodes, full);
  const replicated = nodes.build('overlay', '--groups', '3', '--overlay-file', overlay);
  const more = await checkSplitAndSingle(nodes, 'with an overlay', replicated, '1');
  await check('the overlay changes the probabilities', () => {
    assert.notEqual(difference(third, more), '');
  });
}

// Requirements on every family: whole, as a node of all experts, and as one of two groups unless
// `split` is false.
export async function checkFamily({split = true, ...model}) {
  const nodes = new Nodes(model);
  console.log(`${model.source} as ${model.recipe}`);
  let full;
  await check('the whole model generates', async () => {
    full = await nodes.generate(nodes.convert());
    assertGenerated(full);
  });
  await checkAllExperts(nodes, full);
  if (!split) return;
  await check('a node of one of two groups generates', async () => {
    const distribution = nodes.build('two', '--groups', '2', '--prove');
    const node = nodes.assemble('second', distribution, '--group', '1');
    assertGenerated(await nodes.generate(firstFile(node)));
  });
}
