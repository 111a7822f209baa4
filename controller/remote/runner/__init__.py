"""The program that runs on the rented machine: standard library only, Python 3.8 or newer, Linux.

It is shipped as one zip archive beside the job (see ``controller.remote.build``), so it imports nothing of the
operator. Newer syntax and newer library calls must stay out, whatever the operator itself may use.

On the machine, ``~/.brev-operator/jobs/<key>/`` holds: ``gate.json`` (whoever made it may run the command, nobody else
ever), ``run.json`` (the command's process), ``stop.json`` (it shall end), ``exit.json`` (the verdict), ``log/`` (the
newest output), ``work/`` (the job's directory), ``tail.json`` (the masked tail, once the secrets are wiped).
"""
