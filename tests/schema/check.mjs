// Validates a distribution.json or moepack_node.json against its schema with ajv, then breaks it in
// every way below and expects each broken document to be refused: a schema that accepts everything
// proves nothing.
// usage: node check.mjs SCHEMA DOCUMENT
import Ajv2020 from 'ajv/dist/2020.js';
import {readFileSync} from 'node:fs';

// By format: fields that a reader relies on, values of the right type that no document has,
// optional fields with a right and a wrong value, and objects whose unknown fields readers keep,
// which the schema must therefore accept.
const FORMATS = {
  'moepack-distribution': {
    required: [
      '/format', '/format_version', '/model', '/versions', '/partition', '/overlays', '/routing',
      '/bundles', '/assets', '/tool', '/model/family', '/model/layers',
      '/model/moe_layers', '/model/top_k', '/model/source', '/versions/model', '/versions/shard',
      '/versions/replica', '/partition/groups', '/routing/policy', '/bundles/0/role',
      '/bundles/0/file', '/bundles/0/size', '/bundles/0/sha256', '/bundles/0/tensors',
      '/bundles/0/tensors/0/name', '/bundles/0/tensors/0/dtype', '/bundles/0/tensors/0/shape',
      '/bundles/0/tensors/0/offset', '/bundles/0/tensors/0/bytes', '/bundles/0/tensors/0/xxh3',
    ],
    nonsense: {
      '/format': 'another-format',
      '/format_version': '2.0',
      '/model/experts': {'*': 0},
      '/bundles/0/role': 'passenger',
      '/bundles/0/size': -1,
      '/bundles/0/sha256': 'abc',
      '/bundles/0/file': '/etc/passwd',
      '/bundles/0/tensors/0/offset': 0.5,
      '/bundles/0/tensors/0/xxh3': 'Z'.repeat(32),
    },
    optional: [[
      '/bundles/0', 'cells', {bytes: 67108864, sha256: ['a'.repeat(64)]}, {bytes: 0, sha256: []},
    ]],
    extensible: ['', '/model', '/routing', '/bundles/0', '/bundles/0/tensors/0', '/tool'],
  },
  'moepack-node': {
    required: [
      '/format', '/format_version', '/versions', '/versions/model', '/versions/shard',
      '/versions/replica', '/group', '/experts', '/distribution', '/distribution/sha256', '/tool',
      '/tool/version', '/files', '/files/0/file', '/files/0/size', '/files/0/sha256',
    ],
    nonsense: {
      '/format': 'moepack-distribution',
      '/format_version': '1.0',
      '/group': -1,
      '/experts': {x: '1'},
      '/files': [],
      '/files/0/file': 'a/b',
      '/files/0/size': 0.5,
      '/files/0/sha256': 'abc',
    },
    optional: [],
    extensible: ['', '/versions', '/distribution', '/tool', '/files/0'],
  },
};

const [schemaPath, documentPath] = process.argv.slice(2);
const read = (path) => JSON.parse(readFileSync(path, 'utf8'));
const validate = new Ajv2020({strict: true, strictRequired: false}).compile(read(schemaPath));
const original = read(documentPath);
const {required, nonsense, optional, extensible} = FORMATS[original.format];
const failures = [];
let checks = 0;

// A copy of the document, changed by `change(parent, key)` at `path` ("/bundles/0/file").
function changed(path, change) {
  const document = structuredClone(original);
  const keys = path.split('/').slice(1);
  const last = keys.pop();
  const parent = keys.reduce((value, key) => value?.[key], document);
  if (parent?.[last] === undefined) failures.push(`${path}: expected in ${documentPath}`);
  else change(parent, last);
  return document;
}

function expect(accepted, document, what) {
  checks += 1;
  if (validate(document) !== accepted) {
    failures.push(`${what}: expected to be ${accepted ? 'accepted' : 'refused'}` +
      (accepted ? `, found ${JSON.stringify(validate.errors)}` : ''));
  }
}

// Every path of the document; in an array, the first element stands for all.
function* paths(value, path = '') {
  if (value === null || typeof value !== 'object') return;
  const keys = Array.isArray(value) ? Object.keys(value).slice(0, 1) : Object.keys(value);
  for (const key of keys) {
    yield `${path}/${key}`;
    yield* paths(value[key], `${path}/${key}`);
  }
}

function wrongType(value) {
  if (Array.isArray(value)) return {};
  return {string: 17, number: 'x', boolean: 'x', object: []}[typeof value];
}

expect(true, original, documentPath);
for (const path of paths(original)) {
  const document = changed(path, (parent, key) => { parent[key] = wrongType(parent[key]); });
  expect(false, document, `${path} of another type`);
}
for (const path of required) {
  expect(false, changed(path, (parent, key) => { delete parent[key]; }), `no ${path}`);
}
for (const [path, value] of Object.entries(nonsense)) {
  const document = changed(path, (parent, key) => { parent[key] = value; });
  expect(false, document, `${path} = ${JSON.stringify(value)}`);
}
for (const [path, key, right, wrong] of optional) {
  for (const value of [right, wrong]) {
    const document = structuredClone(original);
    path.split('/').slice(1).reduce((parent, step) => parent[step], document)[key] = value;
    expect(value === right, document, `${path}/${key} = ${JSON.stringify(value)}`);
  }
}
for (const path of extensible) {
  const document = structuredClone(original);
  path.split('/').slice(1).reduce((value, key) => value[key], document).x_unknown = 1;
  expect(true, document, `an unknown field in ${path || 'the document'}`);
}

for (const failure of failures) console.log(failure);
console.log(`${checks} documents checked, ${failures.length} surprises`);
process.exit(failures.length === 0 ? 0 : 1);
