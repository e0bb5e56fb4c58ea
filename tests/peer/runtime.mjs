// llama.cpp as node-llama-cpp ships it: built by others, on the CPU, nothing compiled here.
import assert from 'node:assert/strict';
import {getLlama, LlamaLogLevel} from 'node-llama-cpp';

const llama = await getLlama({
  gpu: false, build: 'never', logLevel: LlamaLogLevel.error, progressLogs: false,
});

// A split set is loaded by its first file.
export async function withModel(path, use) {
  const model = await llama.loadModel({modelPath: path, gpuLayers: 0});
  try {
    return await use(model);
  } finally {
    await model.dispose();
  }
}

// Tokens only; files without tensors are enough, although node-llama-cpp logs that it cannot tell
// how much memory they need.
export async function withVocabulary(path, use) {
  llama.logLevel = LlamaLogLevel.disabled;
  const model = await llama.loadModel({modelPath: path, gpuLayers: 0, vocabOnly: true});
  llama.logLevel = LlamaLogLevel.error;
  try {
    return await use(model);
  } finally {
    await model.dispose();
  }
}

function promptTokens(model, text) {
  const tokens = model.tokenize(text);
  return model.tokens.shouldPrependBosToken ? [model.tokens.bos, ...tokens] : tokens;
}

// The probability of each token of the vocabulary to be the next one, by token id.
function byToken(probabilities) {
  const list = new Array(probabilities.size);
  for (const [token, probability] of probabilities) list[token] = probability;
  return list;
}

async function withSequence(path, use, options = {}) {
  return withModel(path, async (model) => {
    const context = await model.createContext({contextSize: 512, threads: 1, ...options});
    return use(model, context.getSequence());
  });
}

// Always the likeliest next token: {text, steps: [{token, probabilities}]}.
export function generate(path, prompt, count) {
  return withSequence(path, async (model, sequence) => {
    const next = {token: true, probabilities: true, options: {temperature: 0}};
    const steps = [];
    let input = promptTokens(model, prompt);
    while (steps.length < count) {
      input[input.length - 1] = [input.at(-1), {generateNext: next}];
      const outputs = await sequence.controlledEvaluate(input);
      const {token, probabilities} = outputs.at(-1).next;
      steps.push({token, probabilities: byToken(probabilities)});
      input = [token];
    }
    return {text: model.detokenize(steps.map((step) => step.token)), steps};
  });
}

// Mean negative logarithm of the probability of each token of `text` after the first, in nats.
export function meanLoss(path, text) {
  return withSequence(path, async (model, sequence) => {
    const tokens = promptTokens(model, text);
    const input = tokens.map((token) => [token, {generateNext: {probabilities: true}}]);
    const outputs = await sequence.controlledEvaluate(input);
    let sum = 0;
    for (let i = 1; i < tokens.length; ++i) {
      sum -= Math.log(outputs[i - 1].next.probabilities.get(tokens[i]));
    }
    return sum / (tokens.length - 1);
  });
}

// "" if two generations are equal to the last bit, otherwise where they diverge.
export function difference(one, other) {
  for (const [i, step] of one.steps.entries()) {
    const match = other.steps[i];
    if (step.token !== match.token) return `step ${i}: token ${step.token} and ${match.token}`;
    const at = step.probabilities.findIndex((value, token) => value !== match.probabilities[token]);
    if (at < 0) continue;
    return `step ${i}: probability of token ${at}: ` +
      `${step.probabilities[at]} and ${match.probabilities[at]}`;
  }
  return '';
}

export function assertSame(one, other) {
  const found = difference(one, other);
  if (found !== '') assert.fail(`expected equal generations, found ${found}`);
}

// Natural logarithms of the probability of every token after each of `tokens(size of the
// vocabulary)`: {tokens, rows}. Keys and values are kept as they are computed, not in half floats.
export function logProbabilities(path, tokens) {
  const exact = {
    flashAttention: false, experimentalKvCacheKeyType: 'F32', experimentalKvCacheValueType: 'F32',
  };
  return withSequence(path, async (model, sequence) => {
    const chosen = tokens(model.fileInfo.metadata.tokenizer.ggml.tokens.length);
    const input = chosen.map((token) => [token, {generateNext: {probabilities: true}}]);
    const outputs = await sequence.controlledEvaluate(input);
    const rows = outputs.map(({next}) => byToken(next.probabilities).map(Math.log));
    return {tokens: chosen, rows};
  }, exact);
}
