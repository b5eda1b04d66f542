/* Gives back to User-Mode Linux's processes all of their registers; preloaded into it, see registers.py.

   kept by User-Mode Linux   [ x87, SSE | which components | AVX ... AVX-512, PKRU ]
   asked for by the host     [ ------------------ the same ----------------------- | AMX: 0, and not among the components ]
*/
#define _GNU_SOURCE
#include <dlfcn.h>
#include <elf.h>
#include <stdarg.h>
#include <stdint.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/uio.h>

enum { LARGEST_BYTES = 1 << 14, COMPONENTS_AT = 512 };
static const uint64_t KEPT_COMPONENTS = 0x3ff; /* up to PKRU */
static uint8_t whole[LARGEST_BYTES];           /* the kernel's stacks are small, and one processor takes turns */

long ptrace(enum __ptrace_request request, ...) {
    static long (*libc_ptrace)(enum __ptrace_request, ...);
    va_list arguments;
    va_start(arguments, request);
    pid_t pid = va_arg(arguments, pid_t);
    void *address = va_arg(arguments, void *), *data = va_arg(arguments, void *);
    va_end(arguments);
    if (libc_ptrace == NULL)
        *(void **)&libc_ptrace = dlsym(RTLD_NEXT, "ptrace");
    struct iovec all = {whole, sizeof whole};
    if (request == PTRACE_SETREGSET && address == (void *)NT_X86_XSTATE) {
        const struct iovec *kept = data;
        uint64_t components;
        memcpy(whole, kept->iov_base, kept->iov_len);
        memcpy(&components, whole + COMPONENTS_AT, sizeof components);
        components &= KEPT_COMPONENTS;
        memcpy(whole + COMPONENTS_AT, &components, sizeof components);
        data = &all;
    }
    return libc_ptrace(request, pid, address, data);
}
