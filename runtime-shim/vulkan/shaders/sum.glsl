// Sums and maximums over a workgroup of 128, by a tree in shared memory: the same order of
// additions on every device, and no subgroups are needed. All invocations must call them.

const uint kThreads = 128;
layout(local_size_x = 128) in;

shared float tree[kThreads];

float SumOfGroup(float value) {
  const uint self = gl_LocalInvocationID.x;
  tree[self] = value;
  barrier();
  for (uint half_size = kThreads / 2; half_size > 0; half_size /= 2) {
    if (self < half_size) tree[self] += tree[self + half_size];
    barrier();
  }
  const float sum = tree[0];
  barrier();
  return sum;
}

float LargestOfGroup(float value) {
  const uint self = gl_LocalInvocationID.x;
  tree[self] = value;
  barrier();
  for (uint half_size = kThreads / 2; half_size > 0; half_size /= 2) {
    if (self < half_size) tree[self] = max(tree[self], tree[self + half_size]);
    barrier();
  }
  const float largest = tree[0];
  barrier();
  return largest;
}
