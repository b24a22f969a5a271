# SPDX-License-Identifier: Apache-2.0
"""scheduler: starts the pchrun of a lost node again while the job waits for it, as the plan's rescues say: on the same
host or on another one, late, twice or never.
"""

import lab as laboratory


class Scheduler:
    def __init__(self, attempt, rescues):
        self.attempt = attempt
        self.rescues = iter(rescues)
        self.seen = set()  # the supervisors that it has given up

    def give_up(self, supervisor):
        """It learns that this supervisor has ended, or that its host does not answer. Node 0 is not replaced."""
        if not self.attempt.plan.wait_s or supervisor.node == 0 or supervisor in self.seen:
            return
        self.seen.add(supervisor)
        rescue = next(self.rescues, None)
        if not rescue or rescue.delay is None:
            self.attempt.note(f"nothing takes the place of node {supervisor.node}")
            return
        self.attempt.after(rescue.delay, lambda: self._replace(supervisor, rescue))

    def _replace(self, supervisor, rescue):
        node, attempt = supervisor.node, self.attempt
        if attempt.has_node_0_ended():
            return
        moves = rescue.moves or supervisor.host in attempt.off
        host = self._free_host() if moves else supervisor.host
        attempt.note(f"node {node} is started again on host {host}")
        attempt.start(node, host)
        attempt.rescued[supervisor] = rescue
        if rescue.twin is not None:
            attempt.after(rescue.twin, lambda: self._start_twin(node))

    def _start_twin(self, node):
        if self.attempt.has_node_0_ended():
            return
        host = self._free_host()
        self.attempt.note(f"node {node} gets a twin on host {host}")
        self.seen.add(self.attempt.start(node, host))

    def _free_host(self):
        """A host that had no node yet, else the last host."""
        used = {supervisor.host for supervisor in self.attempt.supervisors}
        hosts = range(self.attempt.plan.nnodes, laboratory.HOSTS)
        return next((host for host in hosts if host not in used), hosts[-1])
