// Every optional field of a schema, with the command whose output has it. Runs the commands,
// validates what they write with ajv, and fails if the schema has an optional field without a row
// here, a row has no such field, or an output lacks a field that its row promises.
// usage: node sections.mjs ROOT MOEPACK   (in an empty directory)
import Ajv2020 from 'ajv/dist/2020.js';
import {exec} from 'node:child_process';
import {createServer} from 'node:http';
import {readFileSync} from 'node:fs';
import {basename, join, resolve} from 'node:path';
import {promisify} from 'node:util';

const [root, moepack] = process.argv.slice(2).map((path) => resolve(path));
const SERVER = 'http://127.0.0.1';  // with the port of the server below
const TINY = '"$ROOT/fixtures/tiny-moe"';
const damage = (kld) => ({kld, extra_nats: {mean: 0, error: 0}, top1: {mean: 1, error: 0}});
// A field that nothing in this test can write: into which document it is put, a value that the
// schema accepts, and one that it refuses.
const sample = (document, right, wrong) => ({document, right, wrong});
const someDamage = sample('measured', damage({mean: 0.1, error: 0}), damage({mean: 0.1}));
const someSha256 = sample('remote', 'a'.repeat(64), 'A'.repeat(64));

// Documents by name, in the order in which they are made: the file, the command, and the optional
// fields that it has.
const DISTRIBUTIONS = {
  schema: 'distribution',
  documents: {
    split: {
      file: 'split/distribution.json',
      made: `build ${TINY} --groups 3 --overlay-file "$ROOT/fixtures/tiny-overlay.json" -o split`,
      has: [
        '/model/id', '/model/revision', '/model/architecture', '/model/mtp_layers',
        '/model/hidden_size', '/model/expert_intermediate_size', '/model/vocab_size',
        '/model/shared_experts', '/model/expert_groups', '/model/expert_groups_used',
        '/model/parameters_total', '/model/parameters_active', '/complete', '/overlays/*/fill',
        '/bundles/*/group', '/bundles/*/tensors/*/layer', '/bundles/*/tensors/*/experts',
        '/tool/name', '/tool/command',
      ],
    },
    overlaid: {
      file: 'overlaid/distribution.json',
      made: 'overlay split --overlay-file "$ROOT/fixtures/tiny-overlay-2.json" -o overlaid',
      has: ['/overlays/*/parent'],
    },
    part: {
      file: 'part/distribution.json',
      made: `shard-experts ${TINY} --groups 2 --only group:0 --hash-source -o part`,
      environment: {SOURCE_DATE_EPOCH: '1'},
      has: ['/model/source/*/sha256', '/tool/created'],
    },
    scaled: {
      file: 'scaled/distribution.json',
      made: 'build "$ROOT/fixtures/tiny-sigmoid" --groups 2 -o scaled',
      has: ['/model/scale'],
    },
    licensed: {
      file: 'licensed/distribution.json',
      before: `cp -r ${TINY} model && printf '%s\\n' --- 'license: other' 'license_name: tiny' ` +
        `'license_link: LICENSE' --- >model/README.md`,
      made: 'build model --groups 2 -o licensed',
      has: ['/model/license', '/model/license/id', '/model/license/name', '/model/license/link'],
    },
    remote: {
      file: 'remote/distribution.json',
      made: `build ${SERVER}/tiny-moe/ --groups 2 -o remote`,
      has: ['/model/source/*/url', '/model/source/*/validator', '/model/source/*/verified'],
    },
    statistics: {
      // Two sessions of each bucket are enough to measure.
      before: `grep -E '"session": "[a-z]+-(03|07)"' "$ROOT/fixtures/texts/held-out.jsonl" ` +
        '>some.jsonl',
      made: `profile ${TINY} --text "$ROOT/fixtures/texts/calibration.jsonl" -o statistics.json`,
    },
    placed: {
      file: 'placed/distribution.json',
      made: `build ${TINY} --groups 2 --statistics statistics.json -o placed`,
      has: [
        '/routing/placement/prefix_tokens', '/routing/placement/margin',
        '/routing/placement/sessions', '/routing/placement/trial', '/routing/placement/tokens',
        '/routing/placement/centroids', '/calibration', '/quality',
      ],
    },
    imatrix: {
      made: `profile ${TINY} --text "$ROOT/fixtures/texts/manual.md" --imatrix imatrix.gguf`,
    },
    measured: {
      file: 'measured/distribution.json',
      before: `"$MOEPACK" build ${TINY} --groups 2 --quantize Q5_K_M --imatrix imatrix.gguf ` +
        '-o measured',
      made: `eval measured --against ${TINY} --text some.jsonl --generate 0 --record`,
      has: [
        '/bundles/*/tensors/*/source', '/tool/recipe', '/tool/imatrix', '/quality/measured',
        '/quality/measured/made_from', '/quality/measured/made_from/plan',
        '/quality/measured/reference', '/quality/measured/reference/buckets',
        '/quality/measured/unmasked', '/quality/measured/unmasked/all/total',
        '/quality/measured/unmasked/buckets', '/quality/measured/unmasked/buckets/*/total',
        ...['groups/*', 'best'].flatMap((run) => [
          `/quality/measured/${run}/all/split`, `/quality/measured/${run}/all/total`,
          `/quality/measured/${run}/buckets`, `/quality/measured/${run}/buckets/*/split`,
          `/quality/measured/${run}/buckets/*/total`,
        ]),
      ],
    },
    requantized: {
      file: 'requantized/distribution.json',
      made: 'quantize measured --recipe Q4_K_M --allow-requantize --imatrix imatrix.gguf ' +
        '-o requantized',
      has: ['/tool/parents', '/tool/parents/*/imatrix'],
    },
    bare: {
      file: 'bare/distribution.json',
      before: `"$MOEPACK" quantize ${TINY} --recipe exact -o tiny.gguf`,
      made: 'shard-experts tiny.gguf --groups 2 --only group:0 -o bare',
      has: ['/without_assets'],
    },
    refitted: {
      file: 'refitted/distribution.json',
      made: `build ${TINY} --groups 2 --refit --text "$ROOT/fixtures/texts/manual.md" ` +
        '--most-tokens 400 --context 64 --least-tokens 20 --steps ridge -o refitted',
      has: [
        '/versions/refit', '/refit', '/refit/layers/*/experts', '/refit/layers/*/arrays',
        '/refit/layers/*/sha256', '/bundles/*/tensors/*/derived',
        '/refit/calibration/*/sessions', '/refit/calibration/*/taken',
      ],
    },
    calibrated: {
      file: 'calibrated/distribution.json',
      made: `build ${TINY} --groups 2 --quantize Q4_K --calibrate ` +
        '"$ROOT/fixtures/texts/manual.md" --calibrate-most-tokens 400 --calibrate-context 64 ' +
        '-o calibrated',
      has: [
        '/calibrated', '/calibrated/layers/*/sha256',
        '/calibrated/calibration/*/sessions', '/calibrated/calibration/*/taken',
      ],
    },
    calibratedGroups: {
      file: 'calibrated-groups/distribution.json',
      made: `build ${TINY} --groups 2 --quantize Q4_K --refit-store refitted.refit --calibrate ` +
        '"$ROOT/fixtures/texts/manual.md" --calibrate-most-tokens 400 --calibrate-context 64 ' +
        '-o calibrated-groups',
      has: [
        '/calibrated/groups', '/calibrated/groups/layers/*/*/experts',
        '/calibrated/groups/layers/*/*/sha256',
      ],
    },
    calibratedSource: {
      file: 'of-calibrated/distribution.json',
      before: `"$MOEPACK" quantize ${TINY} --recipe Q4_K --calibrated-store ` +
        'calibrated.calibrated -o calibrated.gguf',
      made: 'build calibrated.gguf --groups 2 -o of-calibrated',
      has: ['/model/calibrated'],
    },
  },
  samples: {
    '/stages': sample('split', [{layers: '0-1'}], {}),
    '/bundles/*/cells': sample('split', {bytes: 67108864, sha256: ['a'.repeat(64)]},
      {bytes: 0, sha256: []}),  // of files over 64 MiB
    '/model/source/*/commit': sample('remote', 'a'.repeat(40), 7),  // of the Hub
    '/model/source/*/published_sha256': someSha256,
    '/quality/measured/made_from/refit': sample('measured', 3, -1),  // of a refit
    '/quality/measured/made_from/calibration': sample('measured', 3, -1),  // of a calibrated one
    '/calibrated/layers/*/experts': sample('calibrated', [], [{}]),  // of groups
    '/quality/measured/reference/all/split': someDamage,
    '/quality/measured/reference/all/total': someDamage,
    '/quality/measured/reference/buckets/*/split': someDamage,
    '/quality/measured/reference/buckets/*/total': someDamage,
    '/quality/measured/unmasked/all/split': someDamage,
    '/quality/measured/unmasked/buckets/*/split': someDamage,
  },
};
const NODES = {
  schema: 'node',
  documents: {
    node: {
      file: 'node/moepack_node.json',
      made: 'assemble requantized --group 1 -o node',
      has: ['/tool/name', '/tool/recipe', '/tool/imatrix'],
    },
    refittedNode: {
      file: 'refitted-node/moepack_node.json',
      made: 'assemble refitted --group 1 -o refitted-node',
      has: ['/versions/refit'],
    },
  },
  samples: {},
};

const failures = [];

// The optional fields of a schema; "*" stands for any element or key. What a condition adds is
// optional, too.
function* optional(schema, node, path = '', conditional = false) {
  if (node.$ref) {
    const target = node.$ref.split('/').slice(1).reduce((value, key) => value[key], schema);
    yield* optional(schema, target, path, conditional);
  }
  for (const part of node.allOf ?? []) yield* optional(schema, part, path, conditional);
  if (node.then) yield* optional(schema, node.then, path, true);
  for (const [key, value] of Object.entries(node.properties ?? {})) {
    if (conditional || !node.required?.includes(key)) yield `${path}/${key}`;
    yield* optional(schema, value, `${path}/${key}`);
  }
  if (node.items) yield* optional(schema, node.items, `${path}/*`);
  if (typeof node.additionalProperties === 'object')
    yield* optional(schema, node.additionalProperties, `${path}/*`);
}

const keysOf = (path) => path.split('/').slice(1);

// The objects that hold the last part of the path.
function holders(value, [key, ...rest]) {
  if (value === null || typeof value !== 'object') return [];
  if (rest.length === 0) return [value];
  const next = key === '*' ? Object.values(value) : key in value ? [value[key]] : [];
  return next.flatMap((inner) => holders(inner, rest));
}

// Files of fixtures/tiny-moe with ranges, as a web server without a listing.
const server = createServer((request, response) => {
  let bytes;
  try {
    bytes = readFileSync(join(root, 'fixtures/tiny-moe', basename(request.url)));
  } catch {
    response.writeHead(404).end();
    return;
  }
  const headers = {ETag: '"tiny"', 'Accept-Ranges': 'bytes'};
  const range = /^bytes=(\d+)-(\d+)$/.exec(request.headers.range ?? '');
  if (!range) {
    response.writeHead(200, headers).end(bytes);
    return;
  }
  const first = Number(range[1]), last = Math.min(Number(range[2]), bytes.length - 1);
  headers['Content-Range'] = `bytes ${first}-${last}/${bytes.length}`;
  response.writeHead(206, headers).end(bytes.subarray(first, last + 1));
});

async function make(name, {before, made, environment}) {
  const command = made.replace(SERVER, `${SERVER}:${server.address().port}`);
  const env = {...process.env, ...environment, ROOT: root, MOEPACK: moepack};
  try {
    if (before) await promisify(exec)(before, {env});
    await promisify(exec)(`"$MOEPACK" ${command}`, {env, maxBuffer: 1 << 26});
  } catch (error) {
    failures.push(`${name}: ${command}: ${error.stderr ?? error}`);
  }
}

function checkSamples(validate, documents, samples) {
  for (const [path, {document, right, wrong}] of Object.entries(samples)) {
    for (const value of [right, wrong]) {
      const copy = structuredClone(documents[document]);
      const key = keysOf(path).at(-1);
      const places = copy === undefined ? [] : holders(copy, keysOf(path));
      if (places.length === 0) failures.push(`${path}: ${document} has no place for it`);
      for (const place of places) place[key] = value;
      if (validate(copy) !== (value === right))
        failures.push(`${path} = ${JSON.stringify(value)}: expected to be ` +
          (value === right ? `accepted, found ${JSON.stringify(validate.errors)}` : 'refused'));
    }
  }
}

async function check({schema: name, documents, samples}) {
  const schema = JSON.parse(
    readFileSync(join(root, `manifest/document/${name}.schema.json`), 'utf8'));
  const validate = new Ajv2020({strict: true, strictRequired: false}).compile(schema);
  const read = {}, rows = new Set(Object.keys(samples));
  for (const [title, row] of Object.entries(documents)) {
    await make(title, row);
    if (!row.file) continue;
    try {
      read[title] = JSON.parse(readFileSync(row.file, 'utf8'));
    } catch {
      continue;  // the command failed
    }
    if (!validate(read[title]))
      failures.push(`${title}: \`${row.made}\` wrote what the ${name} schema refuses: ` +
        JSON.stringify(validate.errors));
    for (const path of row.has) {
      rows.add(path);
      if (!holders(read[title], keysOf(path)).some((holder) => keysOf(path).at(-1) in holder))
        failures.push(`${title}: expected ${path}, found none`);
    }
  }
  checkSamples(validate, read, samples);
  const known = new Set(optional(schema, schema));
  for (const path of known)
    if (!rows.has(path)) failures.push(`${name} schema: ${path} has no row in sections.mjs`);
  for (const path of rows)
    if (!known.has(path)) failures.push(`${name} schema: ${path} is no optional field of it`);
  console.log(`${name} schema: ${known.size} optional fields, ` +
    `${Object.keys(read).length} documents`);
}

await new Promise((done) => server.listen(0, '127.0.0.1', done));
await check(DISTRIBUTIONS);
await check(NODES);
server.close();
for (const failure of failures) console.log(failure);
process.exit(failures.length === 0 ? 0 : 1);
