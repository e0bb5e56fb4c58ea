// GGUF files as read by @huggingface/gguf, a parser that is not ours.
import {createHash} from 'node:crypto';
import {readFileSync, readdirSync, statSync} from 'node:fs';
import {join} from 'node:path';
import {gguf, GGMLQuantizationType} from '@huggingface/gguf';

// {path, size, keys: {name: {value, type}}, tensors: [{name, dtype, shape, offset}]} with shapes
// slowest dimension first and offsets from the start of the file, as in distribution.json.
export async function readGguf(path) {
  const file = await gguf(path, {allowLocalFile: true, typedMetadata: true});
  const tensors = file.tensorInfos.map((tensor) => ({
    name: tensor.name,
    dtype: GGMLQuantizationType[tensor.dtype].toLowerCase(),
    shape: tensor.shape.map(Number).reverse(),
    offset: Number(file.tensorDataOffset + tensor.offset),
  }));
  return {path, size: statSync(path).size, keys: file.typedMetadata, tensors};
}

// The value of a key; undefined if it is absent.
export const valueOf = (file, key) => file.keys[key]?.value;

// The files of a set in order, or the only file of a directory.
export async function readSet(directory) {
  const names = readdirSync(directory).filter((name) => name.endsWith('.gguf')).sort();
  return Promise.all(names.map((name) => readGguf(join(directory, name))));
}

// "name dtype shape" of all tensors, sorted.
export function tensorList(files) {
  const lines = files.flatMap((file) => file.tensors.map(
    ({name, dtype, shape}) => `${name} ${dtype} [${shape}]`));
  return lines.sort();
}

// "name sha256" of all tensors of a file, sorted; the zeros after a tensor are included.
export function tensorDigests({path, size, tensors}) {
  const bytes = readFileSync(path);
  const inOrder = [...tensors].sort((a, b) => a.offset - b.offset);
  const lines = inOrder.map(({name, offset}, i) => {
    const end = i + 1 < inOrder.length ? inOrder[i + 1].offset : size;
    return `${name} ${createHash('sha256').update(bytes.subarray(offset, end)).digest('hex')}`;
  });
  return lines.sort();
}

// Paths below `directory`, relative, with '/' between parts.
export function ggufPaths(directory) {
  const names = readdirSync(directory, {recursive: true}).map(String);
  return names.filter((name) => name.endsWith('.gguf')).sort();
}
