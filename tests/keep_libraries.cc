// In every program of a build with AddressSanitizer: no library is ever unloaded. Mesa's driver
// keeps a block of memory until the process ends; once the driver is unloaded, LeakSanitizer
// reports the block as leaked, and can neither name the place nor match it with a suppression.
extern "C" int dlclose(void*) { return 0; }
