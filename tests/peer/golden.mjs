// The checkpoints of golden/convert, if they are available.
import {writeFileSync} from 'node:fs';
import {join} from 'node:path';
import {finish, skip} from './checks.mjs';
import {checkNodes} from './nodes.mjs';
import {checkTokens} from './tokens.mjs';
import {goldenCheckpoint, workDirectory} from './tool.mjs';

const families = ['mixtral', 'qwen3-moe'];
const found = families.map(goldenCheckpoint);
if (found.includes(null)) skip('no golden/convert beside this checkout; set MOEPACK_SHARED');

for (const [i, source] of found.entries()) {
  const work = workDirectory(`golden-${families[i]}`);
  const overlay = join(work, 'overlay.json');
  writeFileSync(overlay, JSON.stringify({version: 'v1', layers: {0: '0', 1: '4'}}));
  for (const recipe of ['BF16', 'Q4_K_M']) {
    await checkNodes({source, overlay, work, recipe, prompt: 'Once upon a time'});
  }
  await checkTokens(source, join(work, 'BF16-full.gguf'));
}

finish();
