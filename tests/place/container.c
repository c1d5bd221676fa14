/* Runs a command with what a container has by default: the capabilities of Docker, and none of the system calls that
 * make namespaces, mount, or reach into the kernel. scripts/try-places builds it. */
#include <errno.h>
#include <linux/capability.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sched.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

static const unsigned capabilities[] = {
    CAP_CHOWN,   CAP_DAC_OVERRIDE, CAP_FOWNER,           CAP_FSETID,     CAP_KILL,  CAP_SETGID,  CAP_SETUID,
    CAP_SETPCAP, CAP_NET_RAW,      CAP_NET_BIND_SERVICE, CAP_SYS_CHROOT, CAP_MKNOD, CAP_SETFCAP, CAP_AUDIT_WRITE};

static const uint32_t refused[] = {SYS_unshare,      SYS_setns,           SYS_mount,       SYS_umount2,
                                   SYS_pivot_root,   SYS_move_mount,      SYS_open_tree,   SYS_fsopen,
                                   SYS_bpf,          SYS_perf_event_open, SYS_userfaultfd, SYS_keyctl,
                                   SYS_add_key,      SYS_syslog,          SYS_request_key, SYS_clock_settime,
                                   SYS_settimeofday, SYS_clock_adjtime,   SYS_reboot,      SYS_io_uring_setup};

static const uint32_t namespaces =
    CLONE_NEWUSER | CLONE_NEWNS | CLONE_NEWNET | CLONE_NEWPID | CLONE_NEWIPC | CLONE_NEWUTS | CLONE_NEWCGROUP;

static struct sock_filter filter[2 * sizeof refused / sizeof refused[0] + 16];
static unsigned short filter_length;

static void add(uint16_t code, uint32_t value, uint8_t then, uint8_t otherwise)
{
    filter[filter_length++] = (struct sock_filter){code, then, otherwise, value};
}

static void load(size_t offset)
{
    add(BPF_LD | BPF_W | BPF_ABS, (uint32_t)offset, 0, 0);
}

static void answer(uint32_t with)
{
    add(BPF_RET | BPF_K, with, 0, 0);
}

static void filter_make(void)
{
    load(offsetof(struct seccomp_data, nr));
    for (size_t i = 0; i < sizeof refused / sizeof refused[0]; i++) {
        add(BPF_JMP | BPF_JEQ | BPF_K, refused[i], 0, 1);
        answer(SECCOMP_RET_ERRNO | EPERM);
    }
    /* Its flags are behind a pointer: libc then uses clone. */
    add(BPF_JMP | BPF_JEQ | BPF_K, SYS_clone3, 0, 1);
    answer(SECCOMP_RET_ERRNO | ENOSYS);
    add(BPF_JMP | BPF_JEQ | BPF_K, SYS_clone, 0, 3);
    load(offsetof(struct seccomp_data, args[0]));
    add(BPF_JMP | BPF_JSET | BPF_K, namespaces, 0, 1);
    answer(SECCOMP_RET_ERRNO | EPERM);
    answer(SECCOMP_RET_ALLOW);
}

static int is_kept(unsigned capability)
{
    for (size_t i = 0; i < sizeof capabilities / sizeof capabilities[0]; i++)
        if (capabilities[i] == capability)
            return 1;
    return 0;
}

/* Whoever has none, as a user has not, keeps none. */
static int capabilities_drop(void)
{
    struct __user_cap_header_struct header = {.version = _LINUX_CAPABILITY_VERSION_3};
    struct __user_cap_data_struct data[2];
    if (syscall(SYS_capget, &header, data) != 0)
        return -1;
    for (unsigned capability = 0; prctl(PR_CAPBSET_READ, capability, 0, 0, 0) >= 0; capability++) {
        if (is_kept(capability))
            continue;
        (void)prctl(PR_CAPBSET_DROP, capability, 0, 0, 0);
        data[capability / 32].effective &= ~(1u << capability % 32);
        data[capability / 32].permitted &= ~(1u << capability % 32);
    }
    data[0].inheritable = data[1].inheritable = 0;
    return (int)syscall(SYS_capset, &header, data);
}

int main(int argc, char **argv)
{
    struct sock_fprog program = {.filter = filter};
    if (argc < 2) {
        fprintf(stderr, "usage: container COMMAND [ARGUMENT...]\n");
        return 2;
    }
    filter_make();
    program.len = filter_length;
    /* Whoever may not administer the system gives up what programs of other users would give. */
    int is_done = prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program, 0, 0) == 0 ||
                  (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 &&
                   prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program, 0, 0) == 0);
    if (!is_done || capabilities_drop() != 0) {
        fprintf(stderr, "container: %s\n", strerror(errno));
        return 1;
    }
    execvp(argv[1], argv + 1);
    fprintf(stderr, "container: %s: %s\n", argv[1], strerror(errno));
    return 127;
}
