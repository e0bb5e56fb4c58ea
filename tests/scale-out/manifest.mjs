// Validates a manifest of a Job and prints the commands of its pods, one line of shell for each.
// First breaks the manifest in some ways and expects each to be refused: a check that accepts
// everything proves nothing.
// usage: node manifest.mjs MANIFEST [NAME=VALUE of its environment]...
import {Job} from 'kubernetes-models/batch/v1/Job';
import {readFileSync} from 'node:fs';
import {parse} from 'yaml';

const [path, ...settings] = process.argv.slice(2);
const manifest = parse(readFileSync(path, 'utf8'));
const accepted = (document) => {
  try {
    new Job(document).validate();
    return true;
  } catch {
    return false;
  }
};

const first = (job) => job.spec.template.spec.containers[0];
const broken = {
  'completions of text': (job) => { job.spec.completions = 'sixteen'; },
  'no template': (job) => { delete job.spec.template; },
  'no container': (job) => { delete job.spec.template.spec.containers; },
  'a command that is no list': (job) => { first(job).command = 'x'; },
  'a variable without a name': (job) => { delete first(job).env[0].name; },
  'a number for a variable': (job) => { first(job).env[0].value = 3; },
};
for (const [what, change] of Object.entries(broken)) {
  const document = structuredClone(manifest);
  change(document);
  if (accepted(document)) throw new Error(`${path} with ${what}: expected to be refused`);
}
new Job(manifest).validate();

const {spec} = manifest;
const container = first(manifest);
const variables = Object.fromEntries(container.env.map(({name, value}) => [name, value]));
if (spec.completionMode === 'Indexed' && variables.JOB_COMPLETIONS !== String(spec.completions)) {
  const found = variables.JOB_COMPLETIONS;
  throw new Error(`JOB_COMPLETIONS: expected ${spec.completions}, found ${found}`);
}
for (const setting of settings) {
  const [name, value] = setting.split('=');
  if (name in variables) variables[name] = value;
}
// Like the kubelet: $(NAME) is replaced by the variable's value.
const expanded = container.command.map(
  (word) => word.replace(/\$\(([A-Z_]+)\)/g, (whole, name) => variables[name] ?? whole));
const quoted = (word) => `'${word.replaceAll("'", "'\\''")}'`;
const pods = spec.completionMode === 'Indexed' ? spec.completions : 1;
for (let index = 0; index < pods; ++index) {
  const environment = Object.entries(
    pods > 1 ? {...variables, JOB_COMPLETION_INDEX: String(index)} : variables);
  const words = environment.map(([name, value]) => `${name}=${quoted(value)}`);
  console.log(['env', ...words, ...expanded.map(quoted)].join(' '));
}
