// Rows of F32 values in a bound slice of a buffer, and which of them an invocation works on.

// Row i starts at value offset + i * stride of the binding.
struct Rows {
  uint offset, stride;
};

uint At(Rows rows, uint row, uint column) { return rows.offset + row * rows.stride + column; }

// The number of this workgroup. The dimensions of a dispatch are limited, so many groups are spread
// over three; there may be a few more than requested, which find nothing to do.
uint Group() {
  return (gl_WorkGroupID.z * gl_NumWorkGroups.y + gl_WorkGroupID.y) * gl_NumWorkGroups.x +
         gl_WorkGroupID.x;
}
