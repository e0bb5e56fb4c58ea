// Named checks: one printed line each; the process fails if one of them failed.
let passed = 0, failed = 0;

export async function check(name, body) {
  try {
    await body();
    passed += 1;
    console.log(`ok      ${name}`);
  } catch (error) {
    failed += 1;
    console.log(`FAILED  ${name}\n        ${error.message.replaceAll('\n', '\n        ')}`);
  }
}

// The last statement of every script.
export function finish() {
  console.log(`${passed} checks passed, ${failed} failed`);
  process.exit(failed === 0 && passed > 0 ? 0 : 1);
}

// A missing precondition: CTest counts the test as skipped and shows this line.
export function skip(reason) {
  console.log(reason);
  process.exit(77);
}
