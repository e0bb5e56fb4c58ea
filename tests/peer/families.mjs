// The other families of golden/convert and golden/convert-2026, if they are available: FP8, int4,
// MXFP4, packed experts, latent and linear attention.
import {finish, skip} from './checks.mjs';
import {checkFamily} from './nodes.mjs';
import {goldenCheckpoint, workDirectory} from './tool.mjs';

const families = [
  'deepseek-v3', 'glm-4.5', 'gpt-oss', 'kimi-k2.5', 'llama-4', 'qwen2-moe', 'qwen3.5-moe',
  'ling-3', 'mistral-4', 'kimi-k3', 'minimax-m3', 'cohere2moe', 'qwen3.8-flash-next',
  'exaone-moe', 'solar-open', 'afmoe', 'smallthinker',
  'glm-5.2', 'granite-4-h', 'hy3', 'laguna', 'lfm2-moe', 'qwen3-vl-moe',
];
const found = families.map(goldenCheckpoint);
if (found.includes(null)) skip('no golden/convert beside this checkout; set MOEPACK_SHARED');

for (const [i, source] of found.entries()) {
  // The experts of these are already quantized.
  const words = ['gpt-oss', 'kimi-k3'].includes(families[i]) ? ['--allow-requantize'] : [];
  const work = workDirectory(`family-${families[i]}`);
  await checkFamily({source, work, words, recipe: 'Q4_K_M', prompt: 'Once upon a time'});
}

finish();
