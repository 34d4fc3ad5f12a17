#!/bin/bash
ssh login "cd /work && sbatch --auto-resume=1 a.sbatch"
su -c 'sbatch --auto-resume=1 b.sbatch' worker
echo "sbatch --auto-resume=1 c.sbatch" | at now
at 10:00 <<< "sbatch --auto-resume=1 d.sbatch"
tmux new -d "srun --auto-resume=1 ./e"
script -c "srun --auto-resume=1 ./f" log
screen -dm srun --auto-resume=1 ./g
ssh login "echo sbatch --auto-resume=1 is refused"
{
    echo '#!/bin/bash'
    echo '#SBATCH --nodes=4 --exclusive'
    echo '#SBATCH --auto-resume=1'
    echo 'srun ./h'
} > job.sh
sbatch job.sh
