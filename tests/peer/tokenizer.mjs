// The tokens of the converted tiny model.
import {join} from 'node:path';
import {finish} from './checks.mjs';
import {checkTokens} from './tokens.mjs';
import {inRoot, moepack, workDirectory} from './tool.mjs';

const source = inRoot('fixtures/tiny-moe');
const file = join(workDirectory('tokenizer'), 'tiny.gguf');
moepack('quantize', source, '--recipe', 'Q8_0', '-o', file);
await checkTokens(source, file);
finish();
