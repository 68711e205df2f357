// Runs a program with the system calls that Linux 3.17 has, and no later one: old_kernel PROGRAM
// WORDS...
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <iterator>

int main(int, char** argv) {
  // kexec_file_load, by amd64's numbers; every later kernel numbered on from it.
  constexpr uint32_t last = 320;
  sock_filter rules[] = {
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr)),
      BPF_JUMP(BPF_JMP | BPF_JGT | BPF_K, last, 0, 1),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | ENOSYS),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
  };
  const sock_fprog filter{std::size(rules), rules};
  if (::prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0) return 90;
  if (::prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &filter) != 0) return 91;
  if (::syscall(SYS_membarrier, 0, 0) != -1 || errno != ENOSYS) return 92;  // it is of 4.3
  ::execv(argv[1], argv + 1);
  return 93;
}
