// Holds a pod's namespaces open, as Kubernetes' own pause image does: reaps orphans, ends when it is asked to.
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

static void end(int number) { (void)number; _exit(0); }

static void reap(int number) {
  (void)number;
  while (waitpid(-1, 0, WNOHANG) > 0) {}
}

int main(void) {
  signal(SIGINT, end);
  signal(SIGTERM, end);
  signal(SIGCHLD, reap);
  for (;;) pause();
}
