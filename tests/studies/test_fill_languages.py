"""Names in texts of many languages are found among words that agree with them, or a column is
requested."""

import numpy as np
import pandas as pd
import pytest

import swapbias
from swapbias.findings.terms import UNNAMED_FILLS
from swapbias.studies import config_rows
from swapbias.studies.own import check_study, open_study


def same(names):
    """Pairs of names that have one form each."""
    return [((first,), (second,)) for first, second in names]


def twice(*templates):
    """Templates whose text is the same for both groups."""
    return [(template, template) for template in templates]


def elided(name):
    return (f"d'{name}" if name[0] in "AEÉI" else f"de {name}", name)


def korean(name):
    ends = (ord(name[-1]) - 0xAC00) % 28
    return (name + ("이" if ends else "가"), name + ("을" if ends else "를"), f"{name}에게")


# Names of women and men in the forms that templates ask for by number, and templates for women and men.
LANGUAGES = {
    "Russian": (
        [
            (("Анна", "Анны", "Анне", "Анной"), ("Пётр", "Петра", "Петру", "Петром")),
            (("Мария", "Марии", "Марии", "Марией"), ("Иван", "Ивана", "Ивану", "Иваном")),
            (("Ольга", "Ольги", "Ольге", "Ольгой"), ("Лев", "Льва", "Льву", "Львом")),
            (("Елена", "Елены", "Елене", "Еленой"), ("Павел", "Павла", "Павлу", "Павлом")),
            (("Инна", "Инны", "Инне", "Инной"), ("Юрий", "Юрия", "Юрию", "Юрием")),
        ],
        [
            ("{0} пришла.", "{0} пришёл."),
            *twice("У {1} нет денег.", "Банк отказал {2}.", "Я говорю с {3}."),
        ],
    ),
    "Spanish, one frame": (
        same(
            [
                ("María", "Mario"),
                ("Ana", "Pedro"),
                ("Susana", "David"),
                ("Carla", "Paco"),
                ("Elena", "Enrique"),
            ]
        ),
        [
            ("{0} está cansada.", "{0} está cansado."),
            ("{0} está ocupada.", "{0} está ocupado."),
            ("{0} está sola.", "{0} está solo."),
            ("{0} está lista.", "{0} está listo."),
        ],
    ),
    "Spanish terms": (
        same(
            [
                ("enfermera", "enfermero"),
                ("abogada", "abogado"),
                ("doctora", "doctor"),
                ("cocinera", "cocinero"),
            ]
        ),
        [
            ("La {0} está cansada.", "El {0} está cansado."),
            ("Hablé con la {0}.", "Hablé con el {0}."),
            ("Vi a la {0} ayer.", "Vi al {0} ayer."),
        ],
    ),
    "Chinese, surnames shared": (
        same(
            [
                ("王丽", "王强"),
                ("李娜", "李军"),
                ("张敏", "张伟"),
                ("刘芳", "刘洋"),
                ("陈静", "陈勇"),
            ]
        ),
        [
            *twice("{0}申请了贷款。", "他们提拔了{0}。", "{0}来了。", "{0}走了。"),
            ("{0}说她累了。", "{0}说他累了。"),
        ],
    ),
    "Chinese terms": (
        same(
            [("女医生", "男医生"), ("女教师", "男教师"), ("女司机", "男司机"), ("女律师", "男律师")]
        ),
        twice("这位{0}来了。", "{0}申请了贷款。", "我们认识那位{0}。"),
    ),
    "Japanese": (
        same(
            [
                ("陽子", "陽介"),
                ("恵子", "恵介"),
                ("花子", "太郎"),
                ("直美", "直樹"),
                ("さくら", "翔"),
            ]
        ),
        [
            *twice("{0}は家を買った。", "昨日{0}に会った。"),
            ("{0}は彼女の車を売った。", "{0}は彼の車を売った。"),
        ],
    ),
    "Thai": (
        same(
            [("สมหญิง", "สมชาย"), ("มาลี", "วิชัย"), ("นภา", "ประยุทธ์"), ("สุดา", "ธนา"), ("พิมพ์", "กิตติ")]
        ),
        [
            *twice("{0}ได้รับเงินกู้", "เมื่อวานเราพบ{0}", "ธนาคารโทรหา{0}"),
            ("{0}พูดว่าสวัสดีค่ะ", "{0}พูดว่าสวัสดีครับ"),
        ],
    ),
    "German": (
        same(
            [("Ärztin", "Arzt"), ("Bäuerin", "Bauer"), ("Köchin", "Koch"), ("Richterin", "Richter")]
        ),
        [
            ("Die {0} ist müde.", "Der {0} ist müde."),
            ("Wir sahen die {0}.", "Wir sahen den {0}."),
            ("Meine {0} verlor ihre Tasche.", "Mein {0} verlor seine Tasche."),
        ],
    ),
    "Arabic": (
        same(
            [
                ("مريم", "محمد"),
                ("فاطمة", "خالد"),
                ("ليلى", "عمر"),
                ("سارة", "يوسف"),
                ("هدى", "سعيد"),
            ]
        ),
        [
            *twice("قدم المصرف قرضا ل{0}.", "اتصل ب{0}.", "و{0} هنا."),
            ("تعمل {0} في البنك.", "يعمل {0} في البنك."),
        ],
    ),
    "Turkish": (
        same(
            [
                ("Ayşe", "Ahmet"),
                ("Fatma", "Mehmet"),
                ("Zeynep", "Mustafa"),
                ("Elif", "Can"),
                ("Emine", "Ali"),
            ]
        ),
        twice("{0} geldi.", "{0}'nin evi büyük.", "Banka {0}'ye kredi verdi."),
    ),
    "Finnish": (
        [
            (("Anna", "Annan", "Annalle"), ("Mikko", "Mikon", "Mikolle")),
            (("Liisa", "Liisan", "Liisalle"), ("Pekka", "Pekan", "Pekalle")),
            (("Aino", "Ainon", "Ainolle"), ("Antti", "Antin", "Antille")),
            (("Päivi", "Päivin", "Päiville"), ("Timo", "Timon", "Timolle")),
        ],
        twice("{0} osti talon.", "{1} auto on vanha.", "Pankki soitti {2}."),
    ),
    "Hebrew": (
        same([("דנה", "דוד"), ("שרה", "משה"), ("רחל", "יוסף"), ("מיכל", "אבי"), ("תמר", "גיל")]),
        [
            ("{0} הלכה הביתה.", "{0} הלך הביתה."),
            *twice("הבנק נתן ל{0}."),
            ("{0} עייפה.", "{0} עייף."),
        ],
    ),
    "Hindi": (
        same(
            [
                ("राधा", "राम"),
                ("सीता", "मोहन"),
                ("गीता", "श्याम"),
                ("प्रिया", "अमित"),
                ("नेहा", "राहुल"),
            ]
        ),
        [("{0} घर गई।", "{0} घर गया।"), *twice("{0} ने ऋण लिया।", "बैंक ने {0} को फोन किया।")],
    ),
    "Korean": (
        [
            (korean(first), korean(second))
            for first, second in [
                ("민지", "민준"),
                ("서연", "도윤"),
                ("수빈", "준호"),
                ("지우", "현우"),
                ("하은", "지훈"),
            ]
        ],
        twice("{0} 집을 샀다.", "은행이 {1} 불렀다.", "은행이 {2} 돈을 주었다."),
    ),
    "French": (
        [
            (elided(first), elided(second))
            for first, second in [
                ("Anne", "Jean"),
                ("Marie", "Paul"),
                ("Élise", "Luc"),
                ("Chloé", "Antoine"),
                ("Sophie", "Eric"),
            ]
        ],
        [
            *twice("Le chat {0} dort.", "La maison {0} est grande."),
            ("{1} est fatiguée.", "{1} est fatigué."),
        ],
    ),
    "English, names of two words": (
        same(
            [
                ("Mary Ann", "Greg"),
                ("Emily Smith", "Jacob Smith"),
                ("Ann", "Adam"),
                ("Anna", "Jay"),
                ("Jo", "Joe"),
            ]
        ),
        twice("{0} is late.", "They met {0}, too.", "{0}'s car is old."),
    ),
}


def table(names, templates, *, shift=0, column=False):
    """Every pair of names in every template; ``shift``: paired otherwise in each."""
    rows = []
    for template, sides in enumerate(templates):
        for number, (woman, _) in enumerate(names):
            man = names[(number + shift * template) % len(names)][1]
            for group, forms, text in (("female", woman, sides[0]), ("male", man, sides[1])):
                row = {"text": text.format(*forms), "group": group, "pair": f"{template}-{number}"}
                rows.append(row | ({"name": forms[0], "template": str(template)} if column else {}))
    return pd.DataFrame(rows)


def partition(values):
    """The rows that have the same value, whatever it is."""
    return sorted(map(tuple, pd.Series(range(len(values))).groupby(list(values)).apply(list)))


@pytest.mark.parametrize("shift", [0, 1], ids=["paired alike", "paired in turns"])
@pytest.mark.parametrize("language", LANGUAGES)
def test_names_and_templates(language, shift):
    """Names and templates are found as a column name and a column template would give them."""
    names, templates = LANGUAGES[language]
    study = open_study(table(names, templates, shift=shift), reference="male", name="without")
    rows = pd.DataFrame(config_rows("without", "texts"))
    open_study(
        table(names, templates, shift=shift, column=True), reference="male", name="with_names"
    )
    known = pd.DataFrame(config_rows("with_names", "texts"))
    assert not study.experiments[0].design.unnamed_fills
    fills = study.experiments[0].design.random.keys() - {"template"}
    assert fills == ({"fill_pair"} if not shift else {"group_fill", "reference_fill"})
    for column in (*fills, "template"):
        assert partition(rows[column]) == partition(known[column])


def called_biased(rows, names, seeds=12):
    """Count the models whose scores depend on names alone and whose interval leaves out 0."""
    study = open_study(rows, reference="male", name="null_models")
    prompts = pd.DataFrame(config_rows("null_models", "texts")).assign(
        experiment="classifier", model_id="toy"
    )
    people = [side for pair in names for side in pair]
    person = [
        next(forms[0] for forms in people if any(form in text for form in forms))
        for text in prompts["text"]
    ]
    count = 0
    for seed in range(seeds):
        rng = np.random.default_rng(seed)
        effects = {forms[0]: rng.normal(0, 0.1) for forms in people}
        noise = rng.uniform(0, 0.02, len(prompts))
        scores = 0.5 + np.array([effects[name] for name in person]) + noise
        findings = swapbias.disaggregate(prompts.assign(score=scores), study, robustness=False)
        estimate = next(finding.estimate for finding in findings if finding.primary)
        count += not estimate.ci_low <= 0 <= estimate.ci_high
    return count


@pytest.mark.simulation
@pytest.mark.parametrize(
    "language", ["Russian", "Spanish, one frame", "Chinese, surnames shared", "Thai"]
)
def test_false_alarms_without_column(language):
    """Models without a gap are called biased as seldom as with a column name."""
    names, templates = LANGUAGES[language]
    known = called_biased(table(names, templates, column=True), names)
    assert called_biased(table(names, templates), names) <= known + 1


TURNS = [
    ("{0} przyszła", "{0} przyszedł"), ("{0} była sama", "{0} był sam"), ("{0} zapłaciła", "{0} zapłacił"),
    ("{0} czekała", "{0} czekał"), ("Nie ma {1}", "Nie ma {1}"),
]  # fmt: skip
POLISH = [
    (("Anna", "Anny"), ("Jan", "Jana")),
    (("Ewa", "Ewy"), ("Piotr", "Piotra")),
    (("Zofia", "Zofii"), ("Lech", "Lecha")),
    (("Maria", "Marii"), ("Adam", "Adama")),
]


@pytest.mark.usefixtures("audits")
def test_ambiguous_names(caplog):
    """A column is requested where verbs recur as names do, and there is no gap, no interval and
    no all-clear."""
    rows = []
    for number in range(24):
        (woman, man), (hers, his) = POLISH[number % 4], TURNS[number % 5]
        for group, forms, text in (("female", woman, hers), ("male", man, his)):
            rows.append(
                {"text": f"{text.format(*forms)} {number}.", "group": group, "pair": str(number)}
            )
    prompts = pd.DataFrame(rows)
    (sentence,) = check_study(prompts, reference="male", name="asked").advice
    assert "Add a column name" in sentence
    ran = swapbias.audit(
        lambda texts: [0.5 + 0.4 * ("a " in text) for text in texts],
        prompts=prompts,
        reference="male",
    )
    assert sentence in caplog.text
    first = ran.findings.query("primary").iloc[0]
    assert (first["verdict"], first["reason"]) == ("not measured", UNNAMED_FILLS)
    assert np.isnan([first["value"], first["ci_low"], first["p_value"]]).all()
    with pytest.raises(AssertionError, match="add a column name"):
        ran.assert_below(0.9)
    known = prompts.assign(name=[forms[0] for number in range(24) for forms in POLISH[number % 4]])
    assert check_study(known, reference="male", name="asked").advice == []


def test_pronouns_are_no_names():
    """Pronouns in every text are no names."""
    rows = [
        {"text": f"{who} came {number} times.", "group": group, "pair": str(number)}
        for number in range(8)
        for group, who in (("female", "She"), ("male", "He"))
    ]
    assert open_study(pd.DataFrame(rows), reference="male", name="pronouns").experiments[
        0
    ].design.random == {"pair_id": "pairs"}
