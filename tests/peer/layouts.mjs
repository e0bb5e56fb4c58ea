// A generated checkpoint of every layout that converts: every architecture that we write loads,
// including those without a checkpoint in golden/convert.
import assert from 'node:assert/strict';
import {join} from 'node:path';
import {check, finish} from './checks.mjs';
import {checkFamily} from './nodes.mjs';
import {makeFixtures, moepack, workDirectory} from './tool.mjs';

// "" or why there is no GGUF for it.
function refusal(source) {
  try {
    moepack('quantize', source, '--recipe', 'BF16', '--dry-run', '-o', join(source, 'full.gguf'));
    return '';
  } catch (error) {
    if (!error.message.includes(': status 4\n')) throw error;
    return error.message.split('\n')[1];
  }
}

const work = workDirectory('layouts');
const refused = [];
for (const layout of makeFixtures('--list').trim().split('\n')) {
  const source = join(work, layout);
  makeFixtures(layout, source);
  const reason = refusal(source);
  if (reason !== '') {
    if (!reason.includes('GGUF output: expected a family')) refused.push(layout);
    continue;
  }
  const prompt = '"To_be,or_not';  // there are no other tokens
  // In DeepSeek-V4 layers that route by the token's id stay whole, but llama.cpp has one number of
  // experts; GroveMoE's experts share chunks.
  const split = layout !== 'deepseek-v4' && layout !== 'grovemoe';
  await checkFamily({source, work: join(work, `${layout}-out`), recipe: 'BF16', prompt, split});
}

await check('two layouts of families with a converter are refused', () => {
  assert.deepEqual(refused, ['mistral4-mlx', 'qwen3-moe-mlx', 'step-3.7']);
});

finish();
