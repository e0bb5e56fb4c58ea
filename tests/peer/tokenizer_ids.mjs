// Our tokenizers beside llama.cpp's on the same files: every pre-tokenizer id and SentencePiece
// with made-up vocabularies, then every checkpoint that converts. TOKENIZER_IDS is the program of
// tokenizer_ids.cc.
import assert from 'node:assert/strict';
import {execFileSync} from 'node:child_process';
import {join} from 'node:path';
import {check, finish} from './checks.mjs';
import {withVocabulary} from './runtime.mjs';
import {randomTexts} from './random_texts.mjs';
import {readSamples} from './samples.mjs';
import {goldenCheckpoint, isSoak, makeFixtures, moepack, workDirectory} from './tool.mjs';

const samples = readSamples();
const specials = ['one<|control|>two<|control|>er<|im_end|>', ' <|eot_id|> <|end|>\n<|message|>x',
  '<s>a</s> <unk>b<s>', '<tool> </tool<tool>', '日本語  日本', '<|endoftext|><|endoftext|>'];
const chosen = [...samples, samples.join('\n'), '', ...specials];
const texts = [...chosen, ...randomTexts(isSoak ? 1000 : 150)];

function ours(mode, path, given) {
  const input = JSON.stringify({texts: given});
  return JSON.parse(execFileSync(process.env.TOKENIZER_IDS, [mode, path],
    {input, encoding: 'utf8', maxBuffer: 2 ** 30}));
}

function assertIds(model, texts, found, special) {
  for (const [i, text] of texts.entries()) {
    const expected = model.tokenize(text, special);
    assert.deepEqual(found[i], [...expected], JSON.stringify(text));
  }
}

// llama_detokenize drops spaces around punctuation for some kinds of vocabularies (its
// clean_spaces, which no key of a file turns off); the pieces themselves have them.
function cleaned(text) {
  return text.replace(/ +(?=[?!.,'])/g, '').replace(/' +/g, "'");
}

async function checkFile(name, path, texts) {
  const found = ours('encode', path, texts);
  await withVocabulary(path, async (model) => {
    await check(`${name}: ${texts.length} texts give llama.cpp's tokens, twice`, () => {
      assertIds(model, texts, found.special, true);
      assertIds(model, texts, found.plain, false);
    });
    await check(`${name}: the same ids end a generation, and begin a text`, () => {
      // Undoes what node-llama-cpp adds: it treats eot as an end, and hides a bos of normal type.
      const bare = model._model;
      const ids = found.pieces.map((_, id) => id);
      assert.deepEqual(found.ends, ids.filter((id) => bare.isEogToken(id)));
      const bos = bare.shouldPrependBosToken() ? [bare.tokenBos()] : [];
      const eos = bare.shouldAppendEosToken() ? [bare.tokenEos()] : [];
      assert.deepEqual(found.added, [...bos, ...eos]);
    });
    await check(`${name}: tokens decode to the same text`, () => {
      // After another token, because the space at the start of a text is dropped.
      const before = found.pieces.findIndex((piece) => String(piece) === '65');
      for (const [id, piece] of found.pieces.entries()) {
        const expected = model.detokenize([id], false, [before]);
        const text = Buffer.from(piece).toString('utf8');
        if (name.startsWith('characters') && cleaned(text) === cleaned(expected)) continue;
        assert.equal(text, expected, `id ${id}`);
      }
    });
  });
}

const made = workDirectory('made-tokenizers');
const names = ours('make', made, texts.slice(0, 500));
for (const name of names) await checkFile(name, join(made, `${name}.gguf`), texts);

const families = ['deepseek-v3', 'glm-4.5', 'gpt-oss', 'kimi-k2.5', 'llama-4', 'mixtral',
  'qwen2-moe', 'qwen3-moe', 'qwen3.5-moe'];
const golden = families.map((name) => [name, goldenCheckpoint(name)]);
for (const [name, source] of golden.filter(([, path]) => path !== null)) {
  const file = join(workDirectory(`tokenizer-ids-${name}`), 'full.gguf');
  const words = name === 'gpt-oss' ? ['--allow-requantize'] : [];
  moepack('quantize', source, '--recipe', 'Q8_0', ...words, '-o', file);
  await checkFile(`golden ${name}`, file, texts);
}

// Their tokenizers are like those above; only the conversion that writes them is new.
const layouts = workDirectory('tokenizer-ids-layouts');
for (const layout of makeFixtures('--list').trim().split('\n')) {
  const source = join(layouts, layout), file = join(layouts, `${layout}.gguf`);
  makeFixtures(layout, source);
  try {
    moepack('quantize', source, '--recipe', 'BF16', '-o', file);
  } catch {
    continue;  // layouts.mjs says which these are
  }
  await checkFile(`layout ${layout}`, file, chosen);
}

finish();
