// The bundled trained model: whole, cut in three, with an overlay, in BF16 and quantized.
import assert from 'node:assert/strict';
import {readFileSync} from 'node:fs';
import {join} from 'node:path';
import {check, finish} from './checks.mjs';
import {checkNodes} from './nodes.mjs';
import {meanLoss} from './runtime.mjs';
import {inRoot, workDirectory} from './tool.mjs';

const work = workDirectory('tiny-moe');
const source = inRoot('fixtures/tiny-moe');
const overlay = inRoot('fixtures/tiny-overlay.json');
const prompt = 'You may copy and distribute the ';

await checkNodes({source, overlay, work, prompt, recipe: 'BF16'});
await checkNodes({source, overlay, work, prompt, recipe: 'Q4_K_M', links: true});

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

finish();
