// The programs under test and the places to work in, from the arguments of every script:
// ROOT MOEPACK MAKE_FIXTURES WORK_DIR.
import {execFileSync} from 'node:child_process';
import {existsSync, mkdirSync, rmSync} from 'node:fs';
import {join} from 'node:path';

const [root, moepackBinary, makeFixturesBinary, workRoot] = process.argv.slice(2);

// True in `make soak`: all cases are compared, not some of each kind.
export const isSoak = process.env.MOEPACK_SOAK !== undefined;

export const inRoot = (...parts) => join(root, ...parts);

// An empty directory for one script.
export function workDirectory(name) {
  const directory = join(workRoot, name);
  rmSync(directory, {recursive: true, force: true});
  mkdirSync(directory, {recursive: true});
  return directory;
}

function run(program, words) {
  try {
    return execFileSync(program, words, {encoding: 'utf8', stdio: ['ignore', 'pipe', 'pipe']});
  } catch (error) {
    const command = [program.split('/').pop(), ...words].join(' ');
    throw new Error(`${command}: status ${error.status ?? error.code}\n${error.stderr ?? ''}`);
  }
}

export const moepack = (...words) => run(moepackBinary, words);
export const makeFixtures = (...words) => run(makeFixturesBinary, words);

// A folder of golden/convert, or null if this checkout has none beside it.
export function goldenCheckpoint(name) {
  const beside = process.env.MOEPACK_SHARED ?? inRoot('../shared');
  const places = [
    inRoot('fixtures/golden/convert', name),
    join(beside, 'golden/convert', name),
    join(beside, 'golden/convert-2026', name),
  ];
  return places.find((path) => existsSync(join(path, 'config.json'))) ?? null;
}
