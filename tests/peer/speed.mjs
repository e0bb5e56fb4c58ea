// For make bench: how fast llama.cpp runs a GGUF, in tokens per second of processor time of all its
// threads. The prompt runs on THREADS threads; single tokens on one, because more of them spin
// while they wait for each other. Writes {"prompt": ..., "decode": ...} to OUT.
// usage: node speed.mjs FILE THREADS PROMPT DECODED OUT
import {writeFileSync} from 'node:fs';
import {getLlama, LlamaLogLevel} from 'node-llama-cpp';

const [file, threads, prompt, decoded, out] = process.argv.slice(2);
const llama = await getLlama({
  gpu: false, build: 'never', logLevel: LlamaLogLevel.error, progressLogs: false,
});
const model = await llama.loadModel({modelPath: file, gpuLayers: 0});
const vocabulary = model.fileInfo.metadata.tokenizer.ggml.tokens.length;
const someToken = (index) => (index * 7919 + 13) % vocabulary;

// Tokens per second of processor time.
async function rateOf(count, run) {
  const before = process.cpuUsage();
  await run();
  const used = process.cpuUsage(before);
  return count / ((used.user + used.system) / 1e6);
}

async function withSequence(count, use) {
  const context = await model.createContext({contextSize: 1024, batchSize: 512, threads: count});
  const rate = await use(context.getSequence());
  await context.dispose();
  return rate;
}

const tokens = Array.from({length: Number(prompt)}, (_, index) => someToken(index));
const promptRate = await withSequence(Number(threads), async (sequence) => {
  await sequence.evaluateWithoutGeneratingNewTokens(tokens);  // pages and caches
  await sequence.clearHistory();
  return rateOf(tokens.length, () => sequence.evaluateWithoutGeneratingNewTokens(tokens));
});
const decodeRate = await withSequence(1, async (sequence) => {
  await sequence.evaluateWithoutGeneratingNewTokens(tokens.slice(0, 16));
  return rateOf(Number(decoded), async () => {
    for (let index = 0; index < Number(decoded); ++index) {
      await sequence.evaluateWithoutGeneratingNewTokens([someToken(index + 16)]);
    }
  });
});
writeFileSync(out, JSON.stringify({prompt: promptRate, decode: decodeRate}));
process.exit(0);
