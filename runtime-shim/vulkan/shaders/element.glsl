// Operations without shared memory: one invocation per element.
#include "rows.glsl"

layout(local_size_x = 128) in;

// The number of this invocation.
uint Element() { return Group() * gl_WorkGroupSize.x + gl_LocalInvocationID.x; }
