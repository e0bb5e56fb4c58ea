// out[t] = softmax(scale * q k^T) v, a workgroup per token and head. Positions are processed 128 at
// a time; earlier sums are scaled down whenever a larger product is found.
#version 450
#include "rows.glsl"
#include "sum.glsl"

layout(binding = 0) readonly buffer Queries { float queries[]; };
layout(binding = 1) readonly buffer Keys { float keys[]; };
layout(binding = 2) readonly buffer Values { float values[]; };
layout(binding = 3) readonly buffer Sinks { float sinks[]; };
layout(binding = 4) buffer Out { float result[]; };

layout(push_constant) uniform Push {
  Rows query_rows, key_rows, value_rows, out_rows;
  uint sink_offset, has_sinks;
  uint count, heads, key_heads, key_width, value_width;
  uint past, window, chunk;
  float scale;
};

const float kLeast = -3e38;
shared float parts[kThreads];

// The first position that a token at `position` sees.
uint FirstSeen(uint position) {
  uint first = 0;
  if (window != 0 && position >= window) first = position - window + 1;
  if (chunk != 0) first = max(first, position / chunk * chunk);
  return first;
}

float Product(uint query, uint key) {
  float sum = 0;
  for (uint i = 0; i < key_width; ++i) sum += queries[query + i] * keys[key + i];
  return sum * scale;
}

void main() {
  const uint self = gl_LocalInvocationID.x;
  const uint head = Group() % heads, token = Group() / heads;
  if (token >= count) return;
  const uint key_head = head / (heads / key_heads);
  const uint query = At(query_rows, token, head * key_width);
  const uint target = At(out_rows, token, head * value_width);
  const uint position = past + token;
  float largest = has_sinks != 0 ? sinks[sink_offset + head] : kLeast;
  float total = has_sinks != 0 ? 1 : 0;
  for (uint d = self; d < value_width; d += kThreads) result[target + d] = 0;
  for (uint first = FirstSeen(position); first <= position; first += kThreads) {
    const uint seen = min(kThreads, position + 1 - first);
    float product = kLeast;
    if (self < seen) product = Product(query, At(key_rows, first + self, key_head * key_width));
    const float before = largest;
    largest = max(largest, LargestOfGroup(product));
    const float part = self < seen ? exp(product - largest) : 0;
    parts[self] = part;
    const float shrink = exp(before - largest);
    total = total * shrink + SumOfGroup(part);
    for (uint d = self; d < value_width; d += kThreads) {
      float sum = result[target + d] * shrink;
      for (uint j = 0; j < seen; ++j) {
        sum += parts[j] * values[At(value_rows, first + j, key_head * value_width + d)];
      }
      result[target + d] = sum;
    }
    barrier();
  }
  for (uint d = self; d < value_width; d += kThreads) result[target + d] /= total;
}
